"""First steps of users: install the wheel, ``make run``, pull an image with progress bars."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pykubelet import __version__
from pykubelet.testing.agent import environment, wait_for
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.registry import Registry
from pykubelet.testing.runtime import PrivateRuntime
from pykubelet.testing.terminal import Terminal
from pykubelet.testing.traces import remove_cgroups

_ROOT = Path(__file__).resolve().parents[2]
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_UNREACHABLE = ("No matching distribution found", "Could not find a version", "Connection", "Max retries", "timed out")
_DEMO = """
import sys
from pathlib import Path
import tools.demo as demo
from pykubelet.testing.criserver import PrivateCriServer
demo.HOME, demo.CGROUP = Path({home!r}), {cgroup!r}
demo.runtime = lambda: PrivateCriServer(demo.HOME / "s", {bridge!r}, {subnet!r})
sys.exit(demo.up() if sys.argv[1] == "up" else demo.down())
"""


def _run(*command: str, timeout: float = 240) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout * PATIENCE, cwd="/", check=False)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_wheel_in_an_empty_environment_installs_and_runs(tmp_path: Path) -> None:
    built = _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(_ROOT))
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    bin_ = tmp_path / "venv" / "bin"
    made = _run(sys.executable, "-m", "venv", str(tmp_path / "venv"))
    assert made.returncode == 0, made.stderr
    installed = _run(str(bin_ / "pip"), "install", "--quiet", "--disable-pip-version-check", "--retries=1", str(wheel))
    if installed.returncode != 0 and any(word in installed.stderr for word in _UNREACHABLE):
        pytest.skip(f"pip cannot get the dependencies here: {installed.stderr.strip().splitlines()[-1]}")
    assert installed.returncode == 0, installed.stderr
    program = str(bin_ / "pykubelet")
    version = _run(program, "version")
    assert version.returncode == 0 and __version__ in version.stdout, version.stdout + version.stderr
    doctor = _run(program, "doctor")
    assert "cgroup" in doctor.stdout and "Traceback" not in doctor.stderr, doctor.stdout + doctor.stderr
    assert doctor.returncode in (0, 1), "1: something is missing here"
    helped = _run(program, "--help")
    assert helped.returncode == 0 and "criserver" in helped.stdout


@pytest.mark.root
@pytest.mark.runtime
@pytest.mark.timeout(180)
def test_make_run_shows_the_demo_pod_and_clean_run_removes_all(isolation: Isolation, tmp_path: Path) -> None:
    """The screen shows the demo pod running; Ctrl-C leaves it running; ``make clean-run`` leaves nothing."""
    with _demo(isolation, tmp_path) as (home, command, server, env):
        with Terminal([*command, "up"], {**env, "TERM": "xterm"}, str(_ROOT)) as terminal:
            terminal.until(lambda shown: re.search(r"demo.*Running", _CONTROL.sub("", shown)))
            terminal.type("\x03")
            assert terminal.end() == 0, terminal.shown[-2000:]
            shown = _CONTROL.sub("", terminal.shown)
        for step in ("demo image imported", "agent and its runtime server started", "pods started"):
            assert re.search(rf"✓ {step}  \d+\.\d s", shown), shown[:2000]
        # The line ends at the edge of the screen: agents of tests leave no link, so that the socket has to be named.
        assert re.search(r"in another terminal: .*pykubelet --socket ", shown), shown[:2000]
        assert "the pods run on" in shown
        assert server.pid() is not None
        assert [*(home / "s" / "run" / "bundles").iterdir()], "the pods' containers"
        down = subprocess.run([*command, "down"], env=env, cwd=_ROOT, capture_output=True, text=True)
        assert down.returncode == 0 and "every trace of the demo is gone" in down.stdout, down.stdout + down.stderr
        assert not home.exists() and server.pid() is None
        wait_for(lambda: not Path("/sys/class/net", server.bridge).exists(), 5, lambda: "the bridge is left")


@pytest.mark.root
@pytest.mark.runtime
@pytest.mark.timeout(180)
def test_make_run_without_a_terminal_prints_plain_lines(isolation: Isolation, tmp_path: Path) -> None:
    with _demo(isolation, tmp_path) as (_, command, _, env):
        demo = subprocess.Popen([*command, "up"], env=env, cwd=_ROOT, stdout=subprocess.PIPE, text=True)
        try:
            assert demo.stdout is not None
            text = ""
            # In either order: the pod is ready after a probe, which may have to be repeated.
            wanted = (
                r"^default +demo-demo-node +2/2 +Running +0 +10\.",
                r"^demo-demo-node/ticker: Hello from pykubelet, tick \d+ ",
            )
            for line in demo.stdout:
                text += line
                if all(re.search(each, text, re.MULTILINE) for each in wanted):
                    break
            demo.terminate()
            rest, _ = demo.communicate(timeout=60 * PATIENCE)
        finally:
            demo.kill()
            demo.communicate()
        assert demo.returncode == 0, rest
        assert "\x1b" not in text and text.count("\n") < 30, text


@contextmanager
def _demo(isolation: Isolation, tmp_path: Path) -> Iterator[tuple[Path, list[str], PrivateCriServer, dict[str, str]]]:
    """The demo in a directory of its own: the directory, its command line, its server and its environment."""
    home, cgroup, bridge = isolation.home / "m", f"{isolation.cgroup_root}-m", f"{isolation.bridge}m"
    home.mkdir()
    (tmp_path / "demo.py").write_text(
        _DEMO.format(home=str(home), cgroup=cgroup, bridge=bridge, subnet=isolation.further_subnet("m"))
    )
    command = [sys.executable, str(tmp_path / "demo.py")]
    server = PrivateCriServer(home / "s", bridge, "")
    env = {**os.environ, **environment(), "PYTHONPATH": f"{_ROOT / 'src'}:{_ROOT}"}
    try:
        yield home, command, server, env
    finally:
        subprocess.run([*command, "down"], env=env, cwd=_ROOT, capture_output=True)
        server.destroy()
        remove_cgroups(cgroup)


@pytest.mark.root
@pytest.mark.runtime
@pytest.mark.only_on("criserver")
def test_pull_on_a_terminal_shows_a_bar_for_each_layer(daemon: PrivateRuntime, tmp_path: Path) -> None:
    """A terminal shows a moving bar for each layer, and the image's id at the end."""
    with Registry(tmp_path) as registry:
        image = registry.add("bars", files={"noise": os.urandom(1 << 20)})
        registry.hold()
        pull = [sys.executable, "-m", "pykubelet.cli", "image", "--endpoint", daemon.endpoint, "pull", image]
        with Terminal(pull, {**environment(), "TERM": "xterm"}) as terminal:
            waiting = terminal.until(lambda shown: "downloading" in shown)
            assert "done" not in waiting
            registry.release()
            assert terminal.end() == 0, terminal.shown
            shown = _CONTROL.sub("", terminal.shown)
        layer = re.search(r"([0-9a-f]{12}) +done +━+ +[0-9.]+/[0-9.]+ [kM]B", shown)
        assert layer is not None and f"{layer[1]} " in waiting, shown[-2000:]
        assert shown.rstrip().splitlines()[-1].startswith("sha256:")
        remove = [*pull[:-2], "rm", image]
        subprocess.run(remove, env={**os.environ, **environment()}, check=True, capture_output=True)
