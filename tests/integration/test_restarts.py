"""Restarts, init containers, sidecars, hooks and graceful termination."""

import itertools
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.models.core_v1 import ContainerStateTerminated, ContainerStatus, Pod
from pykubelet.testing.agent import AgentProcess, container_status, wait_for, waiting_reason
from pykubelet.testing.patience import PATIENCE
from tests.manifests import Apply, Json, container, exec_handler, mount, pod, serving, sh, stubborn

pytestmark = [pytest.mark.root, pytest.mark.runtime]

_NOTE = "read now rest </proc/uptime; echo $now {} >>/notes/log"
"""A shell command without quotes that records a word and the time (seconds of uptime) in a file of the host."""
_AGENT_RESTART = 15.0
"""Seconds that the agent is given to be killed and to start again within a back-off, of which the third has 20 s."""


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture(scope="module", autouse=True)
def crashing(agent: AgentProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A pod that crashes in a loop during the other tests; the last test checks it."""
    directory = tmp_path_factory.mktemp("crashing")
    command = sh(f"{_note('start')}; exit 7")
    path = agent.write("crash.json", noting(directory, pod("crash", container(command=command))))
    yield directory / "log"
    path.unlink(missing_ok=True)


def _note(word: str) -> str:
    return _NOTE.format(word)


def noting(directory: Path, manifest: Json) -> Json:
    """Mount a directory of the host at /notes into all containers of the pod."""
    spec = manifest["spec"]
    spec["volumes"] = [*spec.get("volumes", ()), {"name": "notes", "hostPath": {"path": str(directory)}}]
    for each in (*spec["containers"], *spec.get("initContainers", ())):
        each["volumeMounts"] = [*each.get("volumeMounts", ()), mount("notes", "/notes")]
    return manifest


def noted(path: Path) -> list[tuple[float, str]]:
    """(seconds, word) of each record, in the order of writing."""
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [(float(moment), word) for moment, word in lines]


def words(path: Path) -> list[str]:
    return [word for _, word in noted(path)]


def ended(status: ContainerStatus) -> ContainerStateTerminated:
    assert status.state is not None
    assert status.state.terminated is not None, status
    return status.state.terminated


def is_over(seen: Pod) -> bool:
    return seen.status.phase in ("Succeeded", "Failed")


def test_restart_policy_decides_phase_and_restarts(agent: AgentProcess, apply: Apply) -> None:
    once = "if [ -e /shared/ran ]; then exit 0; fi; touch /shared/ran; exit 3"
    shared: Json = {"name": "shared", "emptyDir": {}}
    retried = container(command=sh(once), volumeMounts=[mount("shared", "/shared")])
    apply(
        "policies",
        pod("never-ok", container(command=["true"]), restartPolicy="Never"),
        pod("never-bad", container(command=sh("exit 3")), restartPolicy="Never"),
        pod("two", container("a", ["true"]), container("b", sh("exit 1")), restartPolicy="Never"),
        pod("onfail-ok", container(command=["true"]), restartPolicy="OnFailure"),
        pod("onfail-retry", retried, restartPolicy="OnFailure", volumes=[shared]),
    )
    over = {name: agent.wait_pod(name, is_over) for name in ("never-ok", "never-bad", "two", "onfail-ok")}
    over["onfail-retry"] = agent.wait_pod("onfail-retry", is_over, timeout=20)
    assert {name: seen.status.phase for name, seen in over.items()} == {
        "never-ok": "Succeeded",
        "never-bad": "Failed",
        "two": "Failed",
        "onfail-ok": "Succeeded",
        "onfail-retry": "Succeeded",
    }
    completed = ended(container_status(over["never-ok"]))
    assert (completed.exit_code, completed.reason) == (0, "Completed")
    failed = ended(container_status(over["never-bad"]))
    assert (failed.exit_code, failed.reason) == (3, "Error")
    assert "://" in failed.container_id
    again = container_status(over["onfail-retry"])
    assert again.restart_count == 1
    assert again.last_state is not None
    assert again.last_state.terminated is not None
    assert again.last_state.terminated.exit_code == 3
    ready = next(c for c in over["never-ok"].status.conditions if c.type == "Ready")
    assert (ready.status, ready.reason) == ("False", "PodCompleted")


def test_init_containers_run_one_after_the_other(agent: AgentProcess, apply: Apply, notes: Path) -> None:
    lasting = "until [ -e /notes/go ]; do sleep 0.1; done"
    first = container("first", sh(f"{_note('first')}; {lasting}; {_note('first-end')}"))
    second = container("second", sh(_note("second")))
    main = container(command=serving(_note("main")))
    apply("order", noting(notes.parent, pod("order", main, initContainers=[first, second])))
    waiting = agent.wait_pod("order", lambda p: (s := container_status(p, "first").state) and s.running)
    assert waiting_reason(waiting) == "PodInitializing"
    initialized = next(c for c in waiting.status.conditions if c.type == "Initialized")
    assert (initialized.status, initialized.reason) == ("False", "ContainersNotInitialized")
    (notes.parent / "go").touch()
    seen = agent.wait_running("order")[0]
    wait_for(lambda: "main" in words(notes), 5, notes.read_text)
    assert words(notes) == ["first", "first-end", "second", "main"]
    assert [ended(c).reason for c in seen.status.init_container_statuses] == ["Completed", "Completed"]


def test_failing_init_containers(agent: AgentProcess, apply: Apply, notes: Path) -> None:
    retried = container("retried", sh(f"{_note('init')}; [ $(grep -c init /notes/log) -ge 2 ]"))
    fatal = container("fatal", sh("exit 4"))
    apply(
        "init-fail",
        noting(notes.parent, pod("init-retry", initContainers=[retried])),
        pod("init-fatal", initContainers=[fatal], restartPolicy="Never"),
    )
    failed = agent.wait_pod("init-fatal", is_over)
    assert failed.status.phase == "Failed"
    assert ended(container_status(failed, "fatal")).exit_code == 4
    main = container_status(failed)
    assert main.started is not True
    assert main.container_id == ""
    retry = agent.wait_running("init-retry")[0]
    assert container_status(retry, "retried").restart_count == 1
    assert words(notes) == ["init", "init"]


def test_sidecars_start_first_restart_and_stop_last(agent: AgentProcess, apply: Apply, notes: Path) -> None:
    def side(name: str) -> Json:
        # The test ends the first run of each.
        script = f"trap '{_note(name + '-stop')}; exit 0' TERM; {_note(name)}; while :; do sleep 3600 & wait $!; done"
        return container(name, sh(script), restartPolicy="Always")

    main = container(
        command=sh(f"trap '{_note('main-stop')}; exit 0' TERM; {_note('main')}; while :; do sleep 3600 & wait $!; done")
    )
    between = container("between", sh(_note("between")))
    manifest = pod("sides", main, initContainers=[side("s1"), between, side("s2")], terminationGracePeriodSeconds=10)
    apply("sides", noting(notes.parent, manifest))
    agent.wait_running("sides")
    wait_for(lambda: "main" in words(notes), 5, notes.read_text)
    assert words(notes) == ["s1", "between", "s2", "main"]
    agent.end_container("sides", "s1")
    restarted = agent.wait_pod("sides", lambda p: container_status(p, "s1").restart_count == 1)
    assert container_status(restarted).restart_count == 0
    assert container_status(restarted, "s2").restart_count == 0
    wait_for(lambda: words(notes)[4:] == ["s1-stop", "s1"], 5, notes.read_text)
    apply("sides")
    agent.wait_gone("sides")
    assert words(notes)[6:] == ["main-stop", "s2-stop", "s1-stop"]


def test_sidecars_do_not_delay_the_completion_of_a_job(agent: AgentProcess, apply: Apply) -> None:
    side = container("side", restartPolicy="Always")
    job = container(command=sh("sleep 0.3"))
    apply("job", pod("job", job, initContainers=[side], restartPolicy="Never"))
    seen = agent.wait_pod("job", is_over)
    assert seen.status.phase == "Succeeded"
    assert ended(container_status(seen, "side")).exit_code == 0


def test_hooks_run_after_the_start_and_before_the_stop_signal(agent: AgentProcess, apply: Apply, notes: Path) -> None:
    def hooked(name: str, **lifecycle: Json) -> Json:
        script = f"trap '{_note(name + '-term')}; exit 0' TERM; mkdir /w; httpd -p 80 -h /w; echo ok >/w/index.html;"
        return container(name, sh(f"{script} while :; do sleep 3600 & wait $!; done"), lifecycle=lifecycle)

    http: Json = {"httpGet": {"port": 80, "path": "/"}}
    manifest = pod(
        "hooks",
        hooked("exec", postStart=exec_handler(_note("exec-post")), preStop=exec_handler(_note("exec-pre"))),
        hooked("napping", preStop={"sleep": {"seconds": 1}}),
        hooked("failing", preStop=exec_handler("exit 1")),
        terminationGracePeriodSeconds=30,
    )
    # One container serves on port 80 of the pod's network; the hook of the second pod sends it a request.
    web = pod("hooks-web", hooked("web", preStop=http))
    apply("hooks", noting(notes.parent, manifest), noting(notes.parent, web))
    agent.wait_running("hooks", "hooks-web")
    for name, each in (("hooks", "exec"), ("hooks", "napping"), ("hooks", "failing"), ("hooks-web", "web")):
        agent.exec(name, "until [ -e /w/index.html ]; do sleep 0.1; done", each)  # it heeds SIGTERM, and serves
    assert words(notes) == ["exec-post"]
    removed = _uptime()
    apply("hooks")
    agent.wait_event("hooks", "FailedPreStopHook")
    agent.wait_gone("hooks", "hooks-web")
    order = words(notes)
    assert order.index("exec-pre") < order.index("exec-term")
    assert "web-term" in order
    moments = {word: moment for moment, word in noted(notes)}
    # Far from the grace period.
    assert moments["failing-term"] - removed < 5 * PATIENCE
    assert 0.9 < moments["napping-term"] - removed < 5 * PATIENCE
    assert not [e for e in agent.events("hooks-web") if e.reason == "FailedPreStopHook"]


def _uptime() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])


def test_a_failing_post_start_hook_kills_the_container(agent: AgentProcess, apply: Apply) -> None:
    apply("post", pod("post", container(lifecycle={"postStart": exec_handler("exit 1")})))
    agent.wait_event("post", "FailedPostStartHook")
    agent.wait_event("post", "Killing", "FailedPostStartHook")
    agent.wait_pod("post", lambda p: waiting_reason(p) == "CrashLoopBackOff")


def test_container_that_ignores_sigterm_is_killed_after_the_grace_period(
    agent: AgentProcess, apply: Apply, notes: Path
) -> None:
    trap = f"trap '{_note('polite')}; exit 0' TERM; {_note('heeds')}"
    polite = container(command=sh(f"{trap}; while :; do sleep 3600 & wait $!; done"))
    apply(
        "grace",
        pod("stubborn", container(command=stubborn()), terminationGracePeriodSeconds=3),
        noting(notes.parent, pod("polite", polite, terminationGracePeriodSeconds=30)),
    )
    agent.wait_running("stubborn", "polite")
    wait_for(lambda: words(notes) == ["heeds"], 20, agent.log_tail)
    start, uptime = time.monotonic(), _uptime()
    apply("grace")
    agent.wait_gone("polite", timeout=10)
    assert words(notes) == ["heeds", "polite"]
    assert noted(notes)[1][0] - uptime < 5 * PATIENCE
    agent.wait_gone("stubborn", timeout=15)
    assert 3 <= time.monotonic() - start < 6 * PATIENCE


def test_termination_messages_come_from_the_file_or_the_log(agent: AgentProcess, apply: Apply) -> None:
    fallback = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    apply(
        "messages",
        pod(
            "messages",
            container("file", sh("echo from the file >/dev/termination-log")),
            container("path", sh("printf elsewhere >/tmp/end"), terminationMessagePath="/tmp/end"),
            container("log", sh("echo one; echo two; exit 1"), **fallback),
            container("fine", sh("echo not shown; exit 0"), **fallback),
            container("long", sh("head -c 10000 /dev/zero | tr '\\0' x >/dev/termination-log")),
            restartPolicy="Never",
        ),
    )
    seen = agent.wait_pod("messages", is_over)
    messages = {c.name: ended(c).message for c in seen.status.container_statuses}
    assert messages["file"] == "from the file\n"
    assert messages["path"] == "elsewhere"
    assert messages["log"] == "one\ntwo\n"
    assert messages["fine"] == ""
    assert set(messages["long"]) == {"x"}
    assert 1000 < len(messages["long"]) <= 4096


@pytest.mark.steady_clock  # a new agent knows only by wall clock times when a container exited
def test_crash_loop_back_off_survives_agent_restart(agent: AgentProcess, crashing: Path) -> None:
    """Starts are immediate, immediate, after 10 s and after 20 s; the agent is killed and restarted in between."""
    waiting = agent.wait_pod("crash", lambda p: container_status(p).restart_count >= 2 and _backs_off(p), timeout=25)
    starts = len(noted(crashing))
    if noted(crashing)[-1][0] + _back_off(waiting) - _uptime() < _AGENT_RESTART:
        wait_for(lambda: len(noted(crashing)) > starts, 20, lambda: str(noted(crashing)))
        agent.wait_pod("crash", lambda p: container_status(p).restart_count >= starts and _backs_off(p))
    agent.wait_event("crash", "BackOff", "Back-off restarting failed container main in pod")
    before = words(crashing)
    agent.kill()
    agent.start()
    count = container_status(agent.wait_pod("crash", _backs_off)).restart_count
    assert count == len(before) - 1
    assert words(crashing) == before, "the container was started by the restart of the agent"
    wait_for(lambda: len(noted(crashing)) >= 4, 40, lambda: str(noted(crashing)))
    moments = [moment for moment, _ in noted(crashing)]
    pauses = [later - sooner for sooner, later in itertools.pairwise(moments)]
    assert pauses[0] < 2 * PATIENCE
    assert 10 <= pauses[1] < 10 + 2.5 * PATIENCE
    assert 20 <= pauses[2] < 20 + 3 * PATIENCE
    agent.wait_pod("crash", lambda p: container_status(p).restart_count >= 3)
    log = agent.cli("logs", "crash", "--previous")
    assert log.returncode == 0, log.stderr


def _backs_off(seen: Pod) -> bool:
    return waiting_reason(seen) == "CrashLoopBackOff"


def _back_off(seen: Pod) -> float:
    """The whole back-off of the crashing pod in seconds, by the message of its status."""
    state = container_status(seen).state
    assert state is not None
    assert state.waiting is not None
    form = r"back-off (?:(\d+)m)?(\d+)s restarting failed container=main pod=crash-testnode_default\("
    match = re.match(form, state.waiting.message)
    assert match is not None, state.waiting.message
    return 60 * int(match[1] or 0) + int(match[2])
