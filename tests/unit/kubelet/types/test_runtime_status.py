"""The runtime status of a pod finds the attempts of a container by name."""

from msgspec.structs import replace

from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID, SandboxID
from pykubelet.kubelet.types.runtime import ContainerState, ContainerStatus, PodRuntimeStatus


class CountedName(str):
    """A name that counts with what it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedName.compared += 1
        return str.__eq__(self, other)


def status(*names: str) -> PodRuntimeStatus:
    return PodRuntimeStatus(
        ref=PodRef("ns", "web", PodUID("u")),
        containers=tuple(
            ContainerStatus(
                id=ContainerID(f"id{number}"), name=name, sandbox_id=SandboxID("s"), state=ContainerState.EXITED
            )
            for number, name in enumerate(names)
        ),
    )


def test_attempts_of_a_container_are_newest_first() -> None:
    found = status("a", "b", "a")
    assert [each.id for each in found.attempts("a")] == ["id0", "id2"]
    assert found.latest("b") is found.containers[1]
    assert found.latest("none") is None and found.attempts("none") == ()


def test_changed_status_has_its_own_attempts() -> None:
    """The index of the former one is not copied."""
    found = status("a")
    assert found.latest("a")
    changed = replace(found, containers=status("b").containers)
    assert changed.latest("a") is None and changed.latest("b")
    assert found == status("a")


def test_thousands_of_containers_are_looked_up_in_linear_time() -> None:
    """Each container of a pod is looked up several times in a sync: 8,000 of them stopped the agent for 10 s."""
    names = [CountedName(f"c{number}") for number in range(1000)]
    found = status(*names)
    CountedName.compared = 0
    assert all(found.latest(CountedName(name)) for name in names)
    assert CountedName.compared < 5000
