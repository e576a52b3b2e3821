"""Rules of probes: which ones a pod has, when each begins, and the conclusion from their results. Pure.

The rules are those of the Go kubelet (``pkg/kubelet/prober``) except where a docstring says otherwise.
"""

from collections.abc import Iterator
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.probes.probe_types import ProbeKey, ProbeTarget, Timing
from pykubelet.kubelet.types.ids import ContainerID, ref_of
from pykubelet.kubelet.types.podspec import is_sidecar
from pykubelet.kubelet.types.probes import ProbeResult, ProbeType
from pykubelet.kubelet.types.runtime import ContainerState, PodRuntimeStatus
from pykubelet.models.core_v1 import Container, Pod, Probe


def targets(pod: Pod, status: PodRuntimeStatus, host_ips: tuple[str, ...]) -> dict[ProbeKey, ProbeTarget]:
    """Return the probes of running containers. Ephemeral containers and ordinary init containers have none."""
    ips = host_ips if pod.spec.host_network else status.ips
    ref = ref_of(pod)
    found: dict[ProbeKey, ProbeTarget] = {}
    for container in _probed(pod):
        attempt = status.latest(container.name)
        if attempt is None or attempt.state is not ContainerState.RUNNING:
            continue
        for probe_type, probe in _probes(container):
            target = ProbeTarget(
                ref=ref,
                container=container,
                container_id=attempt.id,
                probe_type=probe_type,
                probe=probe,
                pod_ip=ips[0] if ips else "",
                started_at=attempt.started_at or attempt.created_at,
                was_started=_was_started(pod, attempt.id),
            )
            found[target.key] = target
    return found


def timing(probe: Probe) -> Timing:
    """Return the probe's periods and thresholds, with the API's defaults where they are not set."""
    return Timing(
        initial_delay=probe.initial_delay_seconds or 0,
        period=probe.period_seconds or 10,
        timeout=probe.timeout_seconds or 1,
        success_threshold=probe.success_threshold or 1,
        failure_threshold=probe.failure_threshold or 3,
    )


class ProbeState(Struct, frozen=True):
    """State of the probe of a target after the results so far."""

    probe_type: ProbeType
    conclusion: ProbeResult | None
    """None: unknown, so that the previously reported state stays."""
    last: ProbeResult | None = None
    run: int = 0
    """Number of consecutive results equal to ``last``."""


def initial_state(target: ProbeTarget, *, inherited: bool) -> ProbeState:
    """Return the initial state of a target.

    A new container is not ready, is live, and has not started. The state of a container that was started before this
    run of the agent is unknown: to report it as not ready would take it out of service without a cause.
    """
    known: ProbeResult | None = None
    if target.probe_type is ProbeType.STARTUP and target.was_started:
        known = ProbeResult.SUCCESS
    elif not inherited:
        known = _initial_conclusion(target.probe_type)
    return ProbeState(target.probe_type, known)


def observe(state: ProbeState, result: ProbeResult, limits: Timing) -> ProbeState:
    """Return the state after a result (success or failure): the conclusion changes when a threshold is reached."""
    run = state.run + 1 if state.last is result else 1
    threshold = limits.failure_threshold if result is ProbeResult.FAILURE else limits.success_threshold
    return replace(state, last=result, run=run, conclusion=result if run >= threshold else state.conclusion)


def is_finished(state: ProbeState) -> bool:
    """Whether the probe is finished: the container has started, or has to be restarted."""
    match state.probe_type:
        case ProbeType.STARTUP:
            return state.conclusion in (ProbeResult.SUCCESS, ProbeResult.FAILURE)
        case ProbeType.LIVENESS:
            return state.conclusion is ProbeResult.FAILURE
        case ProbeType.READINESS:
            return False
        case _:
            assert_never(state.probe_type)


def is_reported(old: ProbeState, new: ProbeState) -> bool:
    """Whether the change of the conclusion must be reported; that a container is live was assumed already."""
    if old.conclusion is new.conclusion:
        return False
    return not (new.probe_type is ProbeType.LIVENESS and new.conclusion is ProbeResult.SUCCESS)


def is_inherited(started: Seconds, agent_started: Seconds) -> bool:
    """Whether the container was started before this run of the agent. Both times are monotonic.

    The Go kubelet treats containers started in its last ten seconds as new, and so makes ready pods unready.
    """
    return started < agent_started


def first_delay(target: ProbeTarget, started: Seconds, now: Seconds) -> Seconds:
    """Return the seconds from ``now`` to the first probe, ``initialDelaySeconds`` after the container's start.

    ``started`` is that start; both are monotonic, so that a jump of the wall clock does not change the delay. The Go
    kubelet checks the delay only once per period, and so adds up to one period to it.
    """
    initial = timing(target.probe).initial_delay
    return min(max(0.0, started + initial - now), initial)


def _initial_conclusion(probe_type: ProbeType) -> ProbeResult:
    match probe_type:
        case ProbeType.READINESS:
            return ProbeResult.FAILURE
        case ProbeType.LIVENESS:
            return ProbeResult.SUCCESS
        case ProbeType.STARTUP:
            return ProbeResult.UNKNOWN
        case _:
            assert_never(probe_type)


def _probed(pod: Pod) -> Iterator[Container]:
    yield from (c for c in pod.spec.init_containers if is_sidecar(c))
    yield from pod.spec.containers


def _probes(container: Container) -> Iterator[tuple[ProbeType, Probe]]:
    if container.startup_probe is not None:
        yield ProbeType.STARTUP, container.startup_probe
    if container.liveness_probe is not None:
        yield ProbeType.LIVENESS, container.liveness_probe
    if container.readiness_probe is not None:
        yield ProbeType.READINESS, container.readiness_probe


def _was_started(pod: Pod, container_id: ContainerID) -> bool:
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return any(s.started and s.container_id.rpartition("://")[2] == container_id for s in statuses)
