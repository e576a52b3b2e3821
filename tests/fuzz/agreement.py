"""Checks that the lists of the runtime server agree with the simulated OCI runtime, cgroups, mounts and networks."""

from collections.abc import Collection, Mapping

from pykubelet.pb import runtime_v1_pb2 as pb
from tests.fuzz.criserver import Stage


async def check_lists(stage: Stage) -> None:
    """AssertionError if the lists of an idle server show what the machine has not, or the machine has more."""
    boxes = {each.id: each for each in (await stage.calls["ListPodSandbox"](pb.ListPodSandboxRequest())).items}
    reply = await stage.calls["ListContainers"](pb.ListContainersRequest())
    containers = {each.id: each for each in reply.containers}
    check_nothing_remains(stage, boxes, containers)
    ready = {key for key, box in boxes.items() if box.state == pb.SANDBOX_READY}
    assert stage.machine.attached <= ready, "a sandbox that is not ready has an address"
    _check_containers(stage, containers)


def _check_containers(stage: Stage, containers: Mapping[str, pb.Container]) -> None:
    machine, root = stage.machine, stage.settings.runtime_root("runc")
    for key, each in containers.items():
        first = machine.first.get(key)
        runs = first is not None and first.alive and not (root / key / "exec.fifo").exists()
        assert runs == (each.state == pb.CONTAINER_RUNNING), f"{key} is listed in state {each.state}"
        assert key in machine.rootfs, f"{key} has no root file system"
        if runs:
            assert key in machine.cgroups, f"{key} runs without its cgroup"
            assert (root / key / "state.json").exists(), f"the runtime does not know {key}"


def check_nothing_remains(stage: Stage, sandboxes: Collection[str], containers: Collection[str]) -> None:
    """AssertionError if the machine has anything of other objects. Infra processes have the ids of their sandboxes."""
    machine, settings = stage.machine, stage.settings
    both = {*sandboxes, *containers}
    found = {
        "bundle": {path.name for path in settings.bundles.iterdir()},
        "exit file": {path.name for path in settings.exits.iterdir()},
        "state of the runtime": {path.name for path in settings.runtime_root("runc").iterdir()},
        "cgroup": machine.cgroups.keys(),
        "root file system": machine.rootfs,
        "process": {word for each in machine.living() for word in each.arguments if len(word) == 64},
    }
    assert {what: names - both for what, names in found.items() if names - both} == {}
    directories = {path.name for path in settings.sandboxes.iterdir()} if settings.sandboxes.exists() else set()
    assert directories | machine.namespaces <= set(sandboxes)
