"""The kernel's tunables: in a directory, and on the kernel in a mount namespace of its own."""

import sys
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.base.proc import run
from pykubelet.kubelet.actuate.host.tunables import TUNABLES, check_tunables, set_tunables
from pykubelet.testing.patience import PATIENCE


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    for name in TUNABLES:
        path = tmp_path / name.replace(".", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("7\n")
    return tmp_path


def test_tunables_are_set_and_then_agree(kernel: Path, caplog: pytest.LogCaptureFixture) -> None:
    set_tunables(kernel)
    assert (kernel / "kernel/panic").read_text() == "10"
    check_tunables(kernel)
    caplog.clear()
    set_tunables(kernel)
    assert caplog.text == "", "nothing is left to be set"


def test_tunables_that_cannot_be_set_are_named_in_one_warning(kernel: Path, caplog: pytest.LogCaptureFixture) -> None:
    (kernel / "kernel/panic").unlink()
    (kernel / "kernel/panic_on_oops").write_text("none")
    set_tunables(kernel)
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    reported = vars(warnings[0])["error"]
    assert "kernel.panic=10: " in reported and "kernel.panic_on_oops=1: " in reported
    assert (kernel / "vm/overcommit_memory").read_text() == "1", "the others are set"


def test_protected_tunables_are_not_changed(kernel: Path) -> None:
    (kernel / "kernel/panic").write_text("10")
    (kernel / "vm/panic_on_oom").unlink()
    with pytest.raises(Invalid) as caught:
        check_tunables(kernel)
    text = str(caught.value)
    assert "invalid kernel flag: vm.overcommit_memory, expected value: 1, actual value: 7; " in text
    assert "vm.panic_on_oom, expected value: 0, actual value: [Errno 2]" in text
    assert "kernel.panic," not in text
    assert (kernel / "vm/overcommit_memory").read_text() == "7\n"


REAL = """
import subprocess
from pathlib import Path
from pykubelet.kubelet.actuate.host.tunables import TUNABLES, check_tunables, set_tunables

before = {name: Path("/proc/sys", name.replace(".", "/")).read_text() for name in TUNABLES}
subprocess.run(["mount", "-o", "remount,bind,ro", "/proc/sys"], check=True)
set_tunables()
assert before == {name: Path("/proc/sys", name.replace(".", "/")).read_text() for name in TUNABLES}
"""


@pytest.mark.root
async def test_agent_with_read_only_tunables_goes_on() -> None:
    """As in a container: every file of the real kernel is read, and none can be written."""
    script = f"mount --bind /proc/sys /proc/sys && exec {sys.executable} -c '{REAL}'"
    done = await run(["unshare", "-m", "sh", "-c", script], timeout=60 * PATIENCE)
    assert b"Traceback" not in done.stderr
