"""``pykubelet reset`` restores the machine to its state before the first run."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pykubelet.testing.agent import environment
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.traces import remove_cgroups

_ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.root
@pytest.mark.runtime
@pytest.mark.timeout(400)
def test_reset_restores_the_state_before_the_first_run(isolation: Isolation) -> None:
    """A network and a mount namespace of its own make the states complete, whatever else runs on the machine."""
    home, cgroup, bridge = isolation.home / "r", f"{isolation.cgroup_root}-r", f"{isolation.bridge}r"
    home.mkdir()
    arguments = [str(home), cgroup, bridge, isolation.further_subnet("m")]
    try:
        done = subprocess.run(
            ["unshare", "-n", "-m", sys.executable, "-m", "tests.integration.reset_scenario", *arguments],
            capture_output=True,
            text=True,
            timeout=300 * PATIENCE,
            cwd=_ROOT,
            env={**os.environ, **environment(), "PYTHONPATH": f"{_ROOT / 'src'}:{_ROOT}"},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        seen = json.loads(done.stdout)
    finally:
        PrivateCriServer(home / "s", bridge, "").destroy()
        remove_cgroups(cgroup)
    changed = {name for name in seen["before"] if seen["before"][name] != seen["running"][name]}
    assert {"iptables-save", "links", "mounts", "cgroups", "processes", "files"} <= changed
    dry = seen["dry"]["stdout"]
    for item in ("agent: process", "pod: default/port-testnode", "runtime server: process", f"bridge: {bridge}"):
        assert f"would remove {item}" in dry, dry
    assert f"pods of {bridge}" in dry and "chain CNI-HOSTPORT-DNAT" in dry and f"cgroup: {'/sys/fs/cgroup'}" in dry
    assert seen["still"] == ["ended", "port"], "a dry run changes nothing"
    assert seen["unconfirmed"]["status"] == 2 and "--yes" in seen["unconfirmed"]["stderr"]
    assert (seen["first"]["status"], seen["agent"]) == (0, 0), seen["first"]
    reported = [notice.partition("\n")[0] for notice in seen["notices"]]
    assert reported == ["READY=1", "STOPPING=1"], "of the agent alone, not of its server"
    assert seen["images"] == ["images", "storage"], "images stay without --images"
    assert seen["second"]["status"] == 0, seen["second"]
    assert seen["third"] == {"status": 0, "stdout": "nothing to remove\n", "stderr": ""}
    assert seen["after"] == seen["before"]


@pytest.mark.root
@pytest.mark.runtime
def test_runtime_server_tells_systemd_when_it_serves(isolation: Isolation, monkeypatch: pytest.MonkeyPatch) -> None:
    server = PrivateCriServer(isolation.home / "n", f"{isolation.bridge}n", isolation.further_subnet("p"))
    server.home.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.bind(f"\0{server.home}")
        notices.settimeout(60 * PATIENCE)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{server.home}")
        try:
            server.start()
            assert notices.recv(64).startswith(b"READY=1\n")
            server.stop()
            assert notices.recv(64).startswith(b"STOPPING=1\n")
        finally:
            server.destroy()
