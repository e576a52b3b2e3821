"""The configuration becomes the settings of the components that act on the machine."""

from pathlib import Path

import pytest

from pykubelet.kubelet.actuate.assembly import runtime_config
from pykubelet.kubelet.actuate.podruntime.plan.crashloop import CrashLoop
from pykubelet.kubelet.config import Settings, load_configuration
from pykubelet.kubelet.types.ids import ContainerID, ref_of
from pykubelet.kubelet.types.runtime import ContainerState, ContainerStatus, PodRuntimeStatus
from tests.unit.kubelet.actuate.podruntime.build import pod_of

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
REDUCED = "ReduceDefaultCrashLoopBackOffDecay: true"
NO_MAXIMUM = "KubeletCrashLoopBackOffMax: false"


def _settings(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "config.yaml"
    file.write_text(HEAD + text)
    return Settings(node_name="n", config=load_configuration(file), runtime_endpoint="unix:///run/x.sock")


@pytest.mark.parametrize(
    ("text", "first", "longest"),
    [
        ("", 10, 300),
        ("crashLoopBackOff: {maxContainerRestartPeriod: 40s}", 10, 40),
        ("crashLoopBackOff: {maxContainerRestartPeriod: 4s}", 4, 4),
        (f"featureGates: {{{REDUCED}}}", 1, 300),
        (f"featureGates: {{{REDUCED}}}\ncrashLoopBackOff: {{maxContainerRestartPeriod: 40s}}", 1, 40),
        (f"featureGates: {{{NO_MAXIMUM}}}", 10, 300),
        (f"featureGates: {{{REDUCED}, {NO_MAXIMUM}}}", 1, 60),
        ("featureGates: {AllAlpha: true}", 1, 300),
        ("featureGates: {AllAlpha: true, KubeletCrashLoopBackOffMax: false}", 1, 60),
        (f"featureGates: {{AllAlpha: true, {REDUCED.replace('true', 'false')}}}", 10, 300),
    ],
)
def test_gates_of_the_restart_back_off_decide_its_delays(tmp_path: Path, text: str, first: int, longest: int) -> None:
    config = runtime_config(_settings(tmp_path, text))
    assert (config.crash_initial, config.crash_maximum) == (first, longest)
    assert _delays(CrashLoop(config)) == (first, longest)


def _delays(crashes: CrashLoop) -> tuple[float, float]:
    """Return the first and the longest delay of a container that exits at once, again and again."""
    pod = pod_of()
    (container,) = pod.spec.containers
    now, delays = 1000.0, []
    for attempt in range(12):
        exited = ContainerStatus(
            id=ContainerID(f"c{attempt}"),
            name=container.name,
            state=ContainerState.EXITED,
            restart_count=attempt,
            started_at=now,
            finished_at=now,
        )
        status = PodRuntimeStatus(ref=ref_of(pod), containers=(exited,))
        wait = crashes.wait(status, container, now)
        delays.append(wait.delay if wait else 0.0)
        now += delays[-1]
        crashes.starting(status, container, now)
    return delays[1], max(delays)
