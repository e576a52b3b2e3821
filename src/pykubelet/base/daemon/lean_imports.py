"""Imports of many modules, in less time and memory."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NO_AUTHORITIES: Final = {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull}


@contextmanager
def lean_imports() -> Iterator[None]:
    """Leave out what the imports of the block would do in vain. To be used before there are other threads.

    Garbage is not collected: nearly all objects that an import makes stay, and each collection would look at all of
    them. Later collections leave them out as well (gc.freeze).

    aiohttp makes two TLS contexts when it is imported, each with all authorities of the system: 80 ms, and 2 MiB as
    long as the process runs. No client here uses them: each passes a context of its own (``ssl=``), for a server as for
    a proxy with TLS, or verifies nothing. In the block the system seems to have no authorities, so that a client that
    forgot its context would accept no server.
    """
    before = {name: os.environ.get(name) for name in _NO_AUTHORITIES}
    os.environ.update(_NO_AUTHORITIES)
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
