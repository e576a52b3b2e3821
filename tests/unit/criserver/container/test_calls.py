"""The calls on containers, with plain programs instead of an OCI runtime."""

import asyncio
import json
import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.base.concurrency.guard import item_failures
from pykubelet.base.errors import Conflict, NotFound, Permanent, Transient
from pykubelet.criserver.conmon import Exit
from pykubelet.criserver.container import build_containers
from pykubelet.criserver.event_hub import EventKind
from pykubelet.criserver.runtimes import MonitoredRuntime
from pykubelet.criserver.runtimes.runtime_interfaces import Task
from pykubelet.criserver.types import ContainerPhase, ProtectedIds
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.wait import until
from tests.unit.criserver.container.rig import SANDBOX, rig_in


async def test_container_life_cycle_is_recorded_and_announced(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig, aclosing(rig.scope.events.subscribe()) as events:
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        container = await rig.create()
        assert (await first).kind is EventKind.CREATED
        assert container.record.phase is ContainerPhase.CREATED
        spec = (rig.deps.directories.bundle(container.id) / "config.json").read_text()
        mounts = {each["destination"]: each["source"] for each in json.loads(spec)["mounts"]}
        assert mounts["/data"] == f"/volumes/{container.id}"
        await rig.containers.lifecycle.starter.start(container.id)
        assert container.running
        assert container.record.started_at >= container.record.created_at
        await rig.containers.lifecycle.stopper.stop(container.id, 10)
        record = container.record
        assert (record.phase, record.exit_code, record.reason) == (ContainerPhase.EXITED, 130, "Error")
        assert record.stop_signal == "SIGINT"
        await rig.containers.lifecycle.remover.remove(container.id)
        await rig.containers.lifecycle.remover.remove(container.id)
        assert rig.images.held == set()
        assert list((tmp_path / "bundles").iterdir()) == []
        assert (await rig.store.load())[1] == []
        kinds = [(await anext(events)).kind for _ in range(3)]
        assert kinds == [EventKind.STARTED, EventKind.STOPPED, EventKind.DELETED]


async def test_watch_of_a_container_that_raises_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wait, failures = MonitoredRuntime.wait, 1

    async def fail_first(runtime: MonitoredRuntime, task: Task) -> Exit | None:
        nonlocal failures
        if failures:
            failures -= 1
            raise KeyError("defect")
        return await wait(runtime, task)

    monkeypatch.setattr(MonitoredRuntime, "wait", fail_first)
    before = item_failures().get("containers.exits", 0)
    async with rig_in(tmp_path) as rig:
        bad, good = await rig.create("sh", "-c", "exit 3"), await rig.create("sh", "-c", "exit 4", attempt=1)
        for container in (bad, good):
            await rig.containers.lifecycle.starter.start(container.id)
        await until(lambda: bad.ended.is_set() and good.ended.is_set())
        assert (bad.record.exit_code, good.record.exit_code) == (3, 4)
    assert item_failures()["containers.exits"] - before == 1


async def test_exited_container_is_cleaned_up_once(tmp_path: Path) -> None:
    """Its cgroup is removed when it exits; its removal does not search for it again."""
    async with rig_in(tmp_path) as rig:
        cgroups = rig.cgroups
        container = await rig.create("sh", "-c", "exit 3")
        await rig.containers.lifecycle.starter.start(container.id)
        await container.ended.wait()
        async with container.lock:
            assert cgroups.deleted == [container.record.cgroup]
        assert not (tmp_path / "oci" / container.id).exists()
        await rig.containers.lifecycle.remover.remove(container.id)
        assert cgroups.deleted == [container.record.cgroup]
        assert list((tmp_path / "bundles").iterdir()) == []
        assert list((tmp_path / "exits").glob(container.id)) == []


async def test_exit_without_stop_is_recorded(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sh", "-c", "exit 3")
        await rig.containers.lifecycle.starter.start(container.id)
        await container.ended.wait()
        assert (container.record.exit_code, container.record.reason) == (3, "Error")
        with pytest.raises(Permanent, match="only a created one"):
            await rig.containers.lifecycle.starter.start(container.id)
        with pytest.raises(Permanent, match="not running"):
            rig.containers.table.running(container.id)


async def test_oom_killed_containers_are_reported(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        rig.oom_kills.container = 1
        container = await rig.create("sh", "-c", "kill -9 $$")
        await rig.containers.lifecycle.starter.start(container.id)
        await container.ended.wait()
        assert (container.record.exit_code, container.record.reason) == (137, "OOMKilled")


async def test_cgroup_of_a_container_is_watched_for_oom_kills_while_it_runs(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        await rig.containers.lifecycle.starter.start(container.id)
        await until(lambda: rig.oom_kills.followed == [container.record.cgroup])
        await rig.containers.lifecycle.stopper.stop(container.id, 0)
        await until(lambda: not rig.oom_kills.followed)


@pytest.mark.parametrize(("by_us", "expected"), [(False, "OOMKilled"), (True, "Error")])
async def test_oom_kills_of_the_pod_count_when_the_cgroup_is_gone(tmp_path: Path, by_us: bool, expected: str) -> None:
    async with rig_in(tmp_path) as rig:
        rig.oom_kills.pod = 5
        container = await rig.create("sleep", "60")
        await rig.containers.lifecycle.starter.start(container.id)
        rig.oom_kills.pod = 6
        assert container.record.process is not None
        if by_us:
            await rig.containers.lifecycle.stopper.stop(container.id, 0)
        else:
            os.kill(container.record.process.pid, signal.SIGKILL)
        await container.ended.wait()
        assert (container.record.exit_code, container.record.reason) == (137, expected)


async def test_container_that_ignores_the_stop_signal_is_killed(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        script = f"trap '' INT; touch {tmp_path}/trapped; while :; do sleep 0.02; done"
        container = await rig.create("sh", "-c", script)
        await rig.containers.lifecycle.starter.start(container.id)
        await until((tmp_path / "trapped").exists)
        await rig.containers.lifecycle.stopper.stop(container.id, 0.1)
        assert container.record.exit_code == 137


async def test_all_processes_of_a_container_are_killed_after_its_first_one(tmp_path: Path) -> None:
    """On cgroup v1 they are thawed: SIGKILL has no effect on a frozen one before."""
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        await rig.containers.lifecycle.starter.start(container.id)
        killed: list[tuple[str, bool]] = []
        rig.cgroups.kill = lambda path: killed.append((path, container.killed))
        await rig.containers.lifecycle.stopper.stop(container.id, 0)
        assert killed == [(container.record.cgroup, True)]


async def test_program_that_cannot_be_started_is_a_start_error(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("/no/such/program")
        with pytest.raises(Permanent, match="No such file"):
            await rig.containers.lifecycle.starter.start(container.id)
        record = container.record
        assert (record.phase, record.exit_code, record.reason) == (ContainerPhase.EXITED, 128, "StartError")


async def test_rejected_creation_leaves_nothing(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        with pytest.raises(NotFound, match="is not present"):
            await rig.create(image="absent:1")
        first = await rig.create()
        # A client that has not heard of it asks again.
        assert await rig.create() is first
        with pytest.raises(Conflict, match=f"is reserved for container {first.id}"):
            await rig.create("sleep", "61")
        again = await rig.create(attempt=1)
        assert len(rig.images.held) == 2
        rig.sandbox.ready = False
        with pytest.raises(Permanent, match="not ready"):
            await rig.create(attempt=2)
        with pytest.raises(Permanent, match="not ready"):
            await rig.containers.lifecycle.starter.start(again.id)
        assert len((await rig.store.load())[1]) == 2


@pytest.mark.parametrize(
    ("profile", "refused"),
    [
        (None, False),
        (pb.SecurityProfile.Unconfined, False),
        (pb.SecurityProfile.RuntimeDefault, True),
        (pb.SecurityProfile.Localhost, True),
    ],
)
async def test_seccomp_profile_without_kernel_support_is_rejected(
    tmp_path: Path, profile: pb.SecurityProfile.ProfileType.ValueType | None, refused: bool
) -> None:
    async with rig_in(tmp_path) as rig:
        machine = replace(rig.deps.machine, host=replace(rig.deps.machine.host, seccomp=False))
        containers = build_containers(replace(rig.deps, machine=machine))
        config = pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name="app"), image=pb.ImageSpec(image="app:1"), command=["true"]
        )
        config.linux.security_context.namespace_options.pid = pb.CONTAINER
        if profile is not None:
            config.linux.security_context.seccomp.profile_type = profile
        if refused:
            with pytest.raises(Permanent, match=r"app: its seccomp profile cannot be applied.*Unconfined"):
                await containers.lifecycle.creator.create(SANDBOX, config)
            assert list(containers.table.visible()) == []
            assert (await rig.store.load())[1] == []
        else:
            await containers.lifecycle.creator.create(SANDBOX, config)


async def test_update_of_a_created_container_changes_its_spec(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create()
        await rig.containers.updater.update(container.id, pb.LinuxContainerResources(cpu_shares=99))
        await rig.containers.updater.update(container.id, pb.LinuxContainerResources(memory_limit_in_bytes=1 << 20))
        asked = container.config.linux.resources
        assert (asked.cpu_shares, asked.memory_limit_in_bytes) == (99, 1 << 20)
        assert '"shares": 99' in (tmp_path / "bundles" / container.id / "config.json").read_text()


async def test_update_of_a_running_container_keeps_the_limit_of_processes_of_its_handler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request has no such limit, so one in the OCI runtime's update could only lift that of base_runtime_spec."""
    async with rig_in(tmp_path) as rig:
        container = await rig.create()
        await rig.containers.lifecycle.starter.start(container.id)
        monkeypatch.setattr(rig.containers.updater, "_host", replace(rig.deps.machine.host, cgroup_version=2))
        resources = pb.LinuxContainerResources(cpu_shares=99, unified={"memory.oom.group": "1"})
        await rig.containers.updater.update(container.id, resources)
        reported = json.loads((tmp_path / "oci" / "updated").read_text())
        assert reported == {"cpu": {"shares": 99}, "unified": {"memory.oom.group": "1"}}


async def test_containers_are_found_by_unique_id_prefix(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create()
        assert rig.containers.table.get(container.id[:12]) is container
        for unknown in ("", "nope"):
            with pytest.raises(NotFound):
                rig.containers.table.get(unknown)


async def test_next_server_adopts_running_and_records_exited_containers(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        running = await rig.create()
        ended = await rig.create("sh", "-c", "sleep 0.3; exit 7", attempt=1)
        killed = await rig.create(attempt=2)
        created = await rig.create(attempt=3)
        for container in (running, ended, killed):
            await rig.containers.lifecycle.starter.start(container.id)
    assert killed.record.monitor is not None
    assert killed.record.process is not None
    os.kill(killed.record.monitor.pid, signal.SIGKILL)
    os.kill(killed.record.process.pid, signal.SIGKILL)
    await until((tmp_path / "exits" / ended.id).exists)
    async with rig_in(tmp_path) as rig:
        await rig.recover()
        for container, phase, code, reason in (
            (running, ContainerPhase.RUNNING, 0, ""),
            (ended, ContainerPhase.EXITED, 7, "Error"),
            (killed, ContainerPhase.EXITED, 255, "Unknown"),
            (created, ContainerPhase.CREATED, 0, ""),
        ):
            found = rig.containers.table.get(container.id)
            if phase is ContainerPhase.EXITED:
                await found.ended.wait()
            assert (found.record.phase, found.record.exit_code, found.record.reason) == (phase, code, reason)
        await rig.containers.of_sandbox.stop_all(SANDBOX)
        assert rig.containers.table.get(running.id).record.exit_code == 137
        await rig.containers.of_sandbox.remove_all(SANDBOX)
        assert list(rig.containers.table.visible()) == []
        assert len((await rig.store.load())[1]) == 4, "they go with the record of the sandbox"
        await rig.store.sandboxes.delete(SANDBOX)
        assert (await rig.store.load())[1] == []
        assert list((tmp_path / "bundles").iterdir()) == []


async def test_creation_retried_after_a_restart_returns_the_first_container(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        first, second = await rig.create(), await rig.create(attempt=1)
    async with rig_in(tmp_path) as rig:
        await rig.recover()
        assert (await rig.create()).id == first.id
        await rig.containers.lifecycle.starter.start(second.id)
        with pytest.raises(Conflict, match=f"is reserved for container {second.id}, which is running"):
            await rig.create(attempt=1)
        await rig.containers.of_sandbox.remove_all(SANDBOX)


@pytest.mark.parametrize("sound", [True, False])
async def test_containers_without_a_record_are_protected_or_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sound: bool
) -> None:
    """Running ones are never removed; others are, if the records are complete."""
    async with rig_in(tmp_path) as rig:
        runs, rests = await rig.create("sleep", "60"), await rig.create(attempt=1)
        await rig.containers.lifecycle.starter.start(runs.id)
    async with rig_in(tmp_path) as rig:
        await rig.recover()
        spec = rig.deps.directories.bundle(runs.id) / "config.json"
        spec.write_text(f'{{"namespaces": "/run/ns/{"ab" * 32}/net", "root": "{"c" * 63}"}}')
        protected = await rig.containers.recovery.remove_orphans([], sound)
        said = [vars(entry) for entry in caplog.records]
        reported = {entry["container"]: entry["monitor"] for entry in said if "monitor" in entry}
        assert runs.record.monitor is not None
        assert reported == {runs.id: runs.record.monitor.pid, **({} if sound else {rests.id: 0})}
        await rig.scope.repairs.wait_for_first_attempts(60)
        left = {path.name for path in (tmp_path / "bundles").iterdir()}
        assert left >= {runs.id}
        assert (rests.id in left) is not sound
        assert {runs.id, "ab" * 32} <= protected.ids
        assert (rests.id in protected) is not sound
        assert rests.id + "-other" not in ProtectedIds(protected.ids)
        process = rig.containers.table.get(runs.id).record.process
        assert process is not None
        assert _runs(process.pid)
        await rig.containers.of_sandbox.remove_all(SANDBOX)


async def test_lost_state_file_costs_no_pod_its_container(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        running = await rig.create("sleep", "60")
        await rig.containers.lifecycle.starter.start(running.id)
    (tmp_path / "state.db").write_bytes(b"rubbish" * 1000)
    async with rig_in(tmp_path) as rig:
        await rig.recover()
        found = rig.containers.table.get(running.id)
        assert found.running
        assert found.record == running.record
        await rig.containers.of_sandbox.remove_all(SANDBOX)


async def test_full_disk_does_not_prevent_stop_and_removal(tmp_path: Path) -> None:
    """Nothing new can be started, but containers can be stopped and removed."""
    async with rig_in(tmp_path) as rig:
        running = await rig.create("sleep", "60")
        await rig.containers.lifecycle.starter.start(running.id)
        working = rig.store._database._transaction

        def full(work: Callable[[sqlite3.Connection], None]) -> None:
            raise Transient("disk full")

        setattr(rig.store._database, "_transaction", full)  # noqa: B010  # mypy: methods are not assigned to
        with pytest.raises(Transient, match="disk full"):
            await rig.create(attempt=1)
        await rig.containers.lifecycle.stopper.stop(running.id, 0)
        assert running.record.phase is ContainerPhase.EXITED
        await rig.containers.lifecycle.remover.remove(running.id)
        assert list(rig.containers.table.visible()) == []
        setattr(rig.store._database, "_transaction", working)  # noqa: B010
        await rig.create(attempt=1)
        assert len((await rig.store.load())[1]) == 1
        await rig.containers.of_sandbox.remove_all(SANDBOX)


def _runs(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_exited_container_keeps_no_mapped_volume(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        running, idle = await rig.create("sleep", "60"), await rig.create("sleep", "60", attempt=1)
        for container in (running, idle):
            container.config.mounts.add(container_path="/v", host_path="/v", uidMappings=[pb.IDMapping(length=1)])
            (rig.deps.directories.mapped / container.id / "0").mkdir(parents=True)
            (rig.deps.directories.mapped / container.id / "1").touch()
        await rig.containers.lifecycle.starter.start(running.id)
        await rig.containers.lifecycle.stopper.stop(running.id, 0)
        assert [path.name for path in rig.deps.directories.mapped.iterdir()] == [idle.id]
        await rig.containers.of_sandbox.stop_all(SANDBOX)
        assert list(rig.deps.directories.mapped.iterdir()) == []
        await rig.containers.of_sandbox.remove_all(SANDBOX)
