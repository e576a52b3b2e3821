"""Settings of gRPC's core, each in a process of its own, since the core reads them once."""

import subprocess
import sys
from pathlib import Path

_SERVER = """
import asyncio, os, sys
os.environ["GRPC_VERBOSITY"] = "INFO"
if sys.argv[2:]:
    from pykubelet.base.daemon import grpc_core
    grpc_core.configure("ERROR")
import grpc
from grpc import aio

async def echo(request, context):
    return request

async def main():
    server = aio.server()
    echoed = grpc.unary_unary_rpc_method_handler(echo)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("a", {"b": echoed})])
    server.add_insecure_port(sys.argv[1])
    await server.start()
    await aio.insecure_channel(sys.argv[1]).unary_unary("/a/b")(b"")
    for _ in range(20):  # the handlers tell of themselves only when a thread of the core is busy
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
    os._exit(0)

asyncio.run(main())
"""


def test_fork_of_a_process_with_grpc_runs_no_handlers(tmp_path: Path) -> None:
    def reported(*configured: str) -> str:
        command = [sys.executable, "-c", _SERVER, f"unix:{tmp_path}/s", *configured]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stderr

    assert "fork() handlers" in reported(), "the core tells of its handlers: without that the test shows nothing"
    assert "fork() handlers" not in reported("configured")


def test_commands_of_the_daemons_leave_grpc_to_be_imported_later() -> None:
    code = "import sys; from pykubelet.cli.commands.node import run, criserver; assert 'grpc' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
