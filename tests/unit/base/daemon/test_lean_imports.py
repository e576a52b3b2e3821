"""What the imports of the daemons leave out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pykubelet.testing.certificates import Authority

_CODE = """
import contextlib, gc, os, ssl
from pykubelet.base.daemon.lean_imports import lean_imports

with contextlib.suppress(ValueError), lean_imports():
    from aiohttp import connector
    enabled = gc.isenabled()
    {then}
contexts = (connector._SSL_CONTEXT_VERIFIED, connector._SSL_CONTEXT_UNVERIFIED, ssl.create_default_context())
print(enabled, gc.isenabled(), gc.get_freeze_count() > 0, *(context.cert_store_stats()["x509"] for context in contexts))
print(os.environ["SSL_CERT_FILE"], os.environ.get("SSL_CERT_DIR"))
"""


@pytest.mark.parametrize("then", ["pass", "raise ValueError"])
def test_neither_garbage_nor_authorities_cost_time(tmp_path: Path, then: str) -> None:
    authority = Authority(tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != "SSL_CERT_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", _CODE.format(then=then)],
        env={**environment, "SSL_CERT_FILE": str(authority.ca)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    # Afterwards the machine's authorities count, as for a client's own context.
    assert done.stdout.splitlines() == ["False True True 0 0 1", f"{authority.ca} None"], done.stderr
