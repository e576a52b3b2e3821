"""Restarts that are possible, and those that are refused."""

from datetime import UTC, datetime

import pytest

from pykubelet.base.errors import Conflict, NotFound
from pykubelet.kubelet.serve.common.plan.restart_refusal import check_alive, check_restart
from pykubelet.models.core_v1 import Container, EphemeralContainer, Pod, PodSpec, PodStatus
from pykubelet.models.meta_v1 import ObjectMeta


def _pod(policy: str = "Always", phase: str = "Running") -> Pod:
    spec = PodSpec(
        restart_policy=policy,
        containers=(Container(name="a"), Container(name="own", restart_policy="Always")),
        init_containers=(Container(name="init"), Container(name="side", restart_policy="Always")),
        ephemeral_containers=(EphemeralContainer(name="debug"),),
    )
    return Pod(metadata=ObjectMeta(name="p"), spec=spec, status=PodStatus(phase=phase))


@pytest.mark.parametrize("container", ["", "a", "own", "side"])
def test_container_that_always_restarts_can_be_restarted(container: str) -> None:
    check_restart(_pod(), container)


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_container_that_does_not_restart_is_refused(policy: str) -> None:
    for container in ("", "a"):
        with pytest.raises(Conflict, match=f"restartPolicy {policy}.*apply it again"):
            check_restart(_pod(policy), container)
    check_restart(_pod(policy), "own")


@pytest.mark.parametrize(("container", "words"), [("init", "restart the pod"), ("debug", "runs once")])
def test_containers_that_run_once(container: str, words: str) -> None:
    with pytest.raises(Conflict, match=words):
        check_restart(_pod(), container)


def test_restart_of_an_unknown_container_is_not_found() -> None:
    with pytest.raises(NotFound, match="no container 'x'"):
        check_restart(_pod(), "x")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_restart_in_an_ended_pod_is_refused(phase: str) -> None:
    with pytest.raises(Conflict, match=f"has ended \\({phase}\\)"):
        check_alive(_pod(phase=phase))


def test_restart_in_a_deleted_pod_is_refused() -> None:
    pod = Pod(metadata=ObjectMeta(name="p", deletion_timestamp=datetime.now(UTC)))
    with pytest.raises(Conflict, match="being deleted"):
        check_restart(pod, "")
