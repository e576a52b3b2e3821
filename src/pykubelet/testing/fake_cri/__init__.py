"""A container runtime in memory, for tests: CRI v1 with the semantics of a real one, and a clock under control.

    async with FakeCri(clock) as cri:
        cri.add_image("app:1")
        cri.script(Script(exit_after=3, exit_code=1), Script(), container="app")   # first attempt exits, second runs
        cri.inject(Fault("StartContainer", code=StatusCode.UNKNOWN, details="no memory", times=1))
        client = cri.client()                     # a CriClient without gRPC: virtual time, no sockets
        …
        assert cri.calls("StopContainer") == ["ns/pod/app"]

`serve` puts the same runtime behind a real gRPC server on a unix socket.

Start reading in ``core.py``. Imports no package beside it.
"""

from pykubelet.testing.fake_cri.core import FakeCri, FakeCriOptions
from pykubelet.testing.fake_cri.faults import CallRecord, Fault, RpcError
from pykubelet.testing.fake_cri.scripts import ExecScript, Script
from pykubelet.testing.fake_cri.server import serve
from pykubelet.testing.fake_cri.state import FakeContainer, FakeImage, FakeSandbox

__all__ = [
    "CallRecord",
    "ExecScript",
    "FakeContainer",
    "FakeCri",
    "FakeCriOptions",
    "FakeImage",
    "FakeSandbox",
    "Fault",
    "RpcError",
    "Script",
    "serve",
]
