"""The pod of a blocking call that hangs, and the text of its event."""

import pytest

from pykubelet.kubelet.report.events.plan.hung_calls import hung_message, pod_of_call


@pytest.mark.parametrize(
    ("owner", "pod"),
    [("pod/a", "a"), ("pod/a/volumes", "a"), ("pod/a/nfs/share", "a"), ("images", None), ("volume/a", None)],
)
def test_owner_of_a_call_names_its_pod_or_a_component(owner: str, pod: str | None) -> None:
    assert pod_of_call(owner) == pod


@pytest.mark.parametrize(
    ("owner", "what"),
    [("pod/a", "files of the pod"), ("pod/a/volumes", "volumes of the pod"), ("pod/a/nfs/x", "nfs/x of the pod")],
)
def test_message_names_the_part_of_the_pod_and_the_deadline(owner: str, what: str) -> None:
    assert hung_message(owner, 120.0) == (
        f"error syncing the pod: work on {what} has not ended within 120 s; "
        "a file system or device may not be responding"
    )
