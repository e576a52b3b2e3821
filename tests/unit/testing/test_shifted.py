"""A program in another time and another boot."""

import os
import subprocess
import sys
import time
from pathlib import Path

from pykubelet.linux.system import boot_id
from pykubelet.testing.agent import environment
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.shifted import VARIABLE, jumping, module, read_shift, write_shift

_PROGRAM = """
import sys, time
from pathlib import Path
from pykubelet.testing.shifted import shift
shift(Path(sys.argv[1]))
from pykubelet.linux.system import boot_id
for line in sys.stdin:
    print(time.time(), time.time_ns(), boot_id(), flush=True)
"""


def test_shifted_program_sees_each_change_of_clock_and_boot_while_it_runs(tmp_path: Path) -> None:
    file, other = tmp_path / "shift", "01234567-89ab-cdef-0123-456789abcdef"
    write_shift(file)
    command = [sys.executable, "-c", _PROGRAM, str(file)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment()
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for seconds, wanted in ((0.0, ""), (3600.0, other), (-3600.0, "")):
            write_shift(file, seconds, wanted)
            program.stdin.write("look\n")
            now, nanoseconds, boot = program.stdout.readline().split()
            assert abs(float(now) - time.time() - seconds) < 60
            assert abs(int(nanoseconds) / 1e9 - float(now)) < 1
            assert boot == (wanted or boot_id())
        program.stdin.close()


_CALL = """
import asyncio, os, sys
from pathlib import Path
from pykubelet.testing.shifted import shift, write_shift
shift(Path(sys.argv[1]))
import grpc

async def main():
    server = grpc.aio.server()
    identity = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("s", {"Call": identity}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        print((await channel.unary_unary("/s/Call")(b"answered", timeout=60)).decode())
    await server.stop(None)

async def answer(request, context):
    return request

asyncio.run(main())
"""


def test_shifted_program_makes_calls_with_a_deadline_while_its_clock_is_behind(tmp_path: Path) -> None:
    file = tmp_path / "shift"
    write_shift(file, -3600.0)
    command = [sys.executable, "-c", _CALL, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60)
    assert done.stdout == "answered\n", done.stderr


def test_jumping_clock_is_ahead_behind_and_right_for_what_is_started_meanwhile(tmp_path: Path) -> None:
    file, seen = tmp_path / "shift", set[float]()
    assert module() == "pykubelet.cli"
    with jumping(file, 3600.0, 0.01):
        assert module() == "pykubelet.testing.shifted"
        assert os.environ[VARIABLE] == str(file)
        deadline = time.monotonic() + 10 * PATIENCE
        while len(seen) < 3:
            assert time.monotonic() < deadline, seen
            seen.add(read_shift(file))
    assert seen == {0.0, 3600.0, -3600.0}
    assert VARIABLE not in os.environ
