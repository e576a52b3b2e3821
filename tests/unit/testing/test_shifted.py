"""A program in another time and another boot."""

import subprocess
import sys
import time
from pathlib import Path

from pykubelet.linux.system import boot_id
from pykubelet.testing.agent import environment
from pykubelet.testing.shifted import write_shift

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
