"""STATUS and GC of CNI 1.1: what plugins say of themselves, and what they are told to forget."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Permanent, Transient
from pykubelet.criserver.cni import AttachRequest, NetworkConfig, NetworkManager
from pykubelet.criserver.cni.plugins import Plugins
from pykubelet.criserver.types import SandboxID
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.wait import settle, until

REQUEST = AttachRequest(SandboxID("s1"), "/proc/self/ns/net", "default", "web", "u1")
SCRIPT = """#!/bin/sh
cat > {directory}/$CNI_COMMAND.{name}.json
echo "$CNI_COMMAND {name} ${{CNI_CONTAINERID:-none}}" >> {directory}/calls
if [ -e {directory}/fail-$CNI_COMMAND-{name} ]; then cat {directory}/fail-$CNI_COMMAND-{name}; exit 1; fi
set -u
echo "$CNI_CONTAINERID$CNI_NETNS$CNI_IFNAME$CNI_ARGS" > /dev/null
while [ -e {directory}/hold-$CNI_COMMAND-{name} ]; do sleep 0.05; done
[ $CNI_COMMAND = ADD ] && echo '{{"cniVersion": "1.1.0", "ips": [{{"address": "10.9.0.1/24"}}]}}'
exit 0
"""


class Rig:
    """A network of plugins that are scripts, and a clock by hand."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.clock = directory, VirtualClock()
        for name in ("first", "second"):
            path = directory / name
            path.write_text(SCRIPT.format(directory=directory, name=name))
            path.chmod(0o755)
        (directory / "conf").mkdir()
        self.network = NetworkManager(
            NetworkConfig(directory / "conf", directory / "attachments", clock=self.clock, collect_garbage=True),
            Plugins(directories=(directory,), timeout=10.0),
        )

    async def start(self, version: str = "1.1.0", **fields: object) -> None:
        document: dict[str, object] = {"cniVersion": version, "name": "net"}
        document |= {"plugins": [{"type": "first"}, {"type": "second"}], **fields}
        (self.directory / "conf" / "10.conflist").write_text(json.dumps(document))
        await self.network.start()

    def calls(self, command: str) -> list[str]:
        path = self.directory / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.startswith(command)]

    def fail(self, command: str, name: str, answer: str) -> Path:
        path = self.directory / f"fail-{command}-{name}"
        path.write_text(answer)
        return path

    def hold(self, command: str, name: str) -> Path:
        """Have a plugin hang until the file is removed."""
        path = self.directory / f"hold-{command}-{name}"
        path.touch()
        return path

    def input(self, command: str, name: str) -> dict[str, object]:
        return dict(json.loads((self.directory / f"{command}.{name}.json").read_text()))


@asynccontextmanager
async def following(rig: Rig) -> AsyncIterator[None]:
    """Plugins are asked while the context is open."""
    task = asyncio.create_task(rig.network.follow_status(), name="status")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def collecting(rig: Rig, *used: str) -> AsyncIterator[None]:
    """Garbage is collected while the context is open; these sandboxes are in use."""
    async with collecting_but(rig, [SandboxID(each) for each in used]):
        yield


@asynccontextmanager
async def collecting_but(rig: Rig, used: Sequence[SandboxID] | None) -> AsyncIterator[None]:
    """Garbage is collected while the context is open; None: the sandboxes in use are not known."""
    task = asyncio.create_task(rig.network.collect_garbage(lambda: used), name="collection")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


async def test_plugins_that_cannot_tell_are_not_looked_at_periodically(rig: Rig) -> None:
    await rig.start("1.0.0")
    async with following(rig):
        await rig.clock.settle()
        assert rig.clock.sleepers == 0
        await rig.start("1.1.0")
        await until(lambda: rig.clock.sleepers)
        assert rig.calls("STATUS") == ["STATUS first none", "STATUS second none"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            '{"code": 50, "msg": "agent is down"}',
            "network net: CNI plugin second cannot take further pods: agent is down",
        ),
        ('{"code": 51, "msg": "x"}', "CNI plugin second cannot take further pods, and existing ones may be cut off: x"),
        ('{"code": 999, "msg": "x"}', "CNI plugin second failed (STATUS): x"),
        ("Segmentation fault", "CNI plugin second failed (STATUS): Segmentation fault"),
        ('{"code": "50"}', "CNI plugin second failed (STATUS)"),
    ],
)
async def test_network_is_not_ready_while_a_plugin_says_so(rig: Rig, answer: str, said: str) -> None:
    await rig.start()
    broken = rig.fail("STATUS", "second", answer)
    async with following(rig):
        await until(lambda: said in rig.network.problem())
        assert rig.calls("STATUS") == ["STATUS first none", "STATUS second none"]
        broken.unlink()
        await until(lambda: rig.clock.sleepers == 1)
        await rig.clock.advance(5.0)
        await until(lambda: rig.network.problem() == "")


async def test_missing_plugin_is_reported_before_a_pod_needs_it(rig: Rig) -> None:
    await rig.start()
    (rig.directory / "second").unlink()
    async with following(rig):
        await until(lambda: "second is in none of" in rig.network.problem())


async def test_plugin_that_cannot_be_executed_is_reported_before_a_pod_needs_it(rig: Rig) -> None:
    await rig.start()
    (rig.directory / "second").write_bytes(b"\x7fELF of another machine")
    async with following(rig):
        await until(lambda: "second: Exec format error" in rig.network.problem())


@pytest.mark.parametrize("version", ["0.4.0", "1.0.0"])
async def test_older_networks_are_not_asked(rig: Rig, version: str) -> None:
    await rig.start(version)
    rig.fail("STATUS", "first", "{}")
    async with following(rig), collecting(rig):
        await rig.clock.settle()
    assert rig.network.problem() == "" and rig.calls("STATUS") == rig.calls("GC") == []


async def test_network_that_hangs_is_not_ready(rig: Rig) -> None:
    await rig.start()
    held = rig.hold("STATUS", "first")
    assert "were not asked yet" in rig.network.problem()
    async with following(rig):
        await until(lambda: rig.calls("STATUS") != [])
        assert "were not asked yet" in rig.network.problem()
        held.unlink()
        await until(lambda: rig.network.problem() == "")


async def test_the_status_of_a_former_network_is_not_that_of_the_next(rig: Rig) -> None:
    await rig.start()
    rig.fail("STATUS", "first", '{"code": 50, "msg": "down"}')
    async with following(rig):
        await until(lambda: "down" in rig.network.problem())
        await rig.start("1.0.0", name="other")
        assert rig.network.problem() == ""
        await rig.start("1.1.0", name="third")
        assert "were not asked yet" in rig.network.problem()
        await until(lambda: "network third: CNI plugin first" in rig.network.problem())


async def test_status_that_raises_is_asked_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.start()
    good = rig.network._status.ask

    async def bad(network: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(rig.network._status, "ask", bad)
    async with following(rig):
        await until(lambda: rig.clock.sleepers == 1)
        monkeypatch.setattr(rig.network._status, "ask", good)
        await rig.clock.advance(60.0)
        # More, if the event of the configuration comes late.
        await until(lambda: len(rig.calls("STATUS")) >= 2)


DOWN = '{"code": 50, "msg": "down"}'


@pytest.mark.parametrize("missing", [False, True], ids=["failed", "missing"])
async def test_first_plugin_that_is_not_ready_decides_and_those_after_it_are_not_asked(rig: Rig, missing: bool) -> None:
    await rig.start()
    rig.fail("STATUS", "second", DOWN)
    if missing:
        (rig.directory / "first").unlink()
    else:
        rig.fail("STATUS", "first", DOWN)
    async with following(rig):
        await until(lambda: "first" in rig.network.problem())
    assert "second" not in rig.network.problem()
    assert rig.calls("STATUS") == ([] if missing else ["STATUS first none"])


async def test_status_is_logged_when_it_changes_and_not_again(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pykubelet.criserver.cni.network_status")

    def logged() -> list[tuple[str, str]]:
        found = [record for record in caplog.records if record.message == "pod network status"]
        return [(record.levelname, str(record.__dict__["problem"]).rpartition(": ")[2]) for record in found]

    async def asked(count: int) -> None:
        await until(lambda: len(rig.calls("STATUS")) >= count and rig.clock.sleepers == 1)

    await rig.start()
    async with following(rig):
        await asked(2)
        await rig.clock.advance(60.0)
        await asked(4)
        assert logged() == [], "a network that was always ready"
        broken = rig.fail("STATUS", "first", DOWN)
        await rig.clock.advance(60.0)
        await until(lambda: logged() == [("WARNING", "down")])
        await asked(5)
        await rig.clock.advance(60.0)
        await asked(6)
        assert logged() == [("WARNING", "down")]
        rig.fail("STATUS", "first", DOWN.replace("down", "still down"))
        await rig.clock.advance(60.0)
        await until(lambda: logged() == [("WARNING", "down"), ("WARNING", "still down")])
        broken.unlink()
        await asked(7)
        await rig.clock.advance(60.0)
        await until(lambda: logged()[2:] == [("INFO", "")])
        count = len(rig.calls("STATUS"))
        await rig.clock.advance(60.0)
        await asked(count + 2)
        assert len(logged()) == 3


def reported(rig: Rig, plugin: str = "second") -> list[tuple[str, str]]:
    """The attachments that a plugin was last told to be in use."""
    given = rig.input("GC", plugin)
    found = given["cni.dev/valid-attachments"]
    assert found == given["cni.dev/attachments"]
    assert isinstance(found, list)
    return sorted((each["containerID"], each["ifname"]) for each in found)


async def test_plugins_hear_which_attachments_are_in_use(rig: Rig) -> None:
    await rig.start()
    await rig.network.attach(REQUEST)
    await rig.network.attach(replace(REQUEST, sandbox=SandboxID("s2"), interface="net1"))
    await rig.network.attach(replace(REQUEST, sandbox=SandboxID("s3")))
    (rig.directory / "attachments" / "s3.json").write_text("damaged")
    rig.fail("GC", "first", '{"code": 11, "msg": "no"}')
    async with collecting(rig, "s1", "lost"):
        await until(lambda: len(rig.calls("GC")) == 2)
        # The damaged record may be that of a sandbox with several networks.
        damaged = sorted(("s3", f"eth{index}") for index in range(16))
        assert reported(rig) == [("lost", "eth0"), ("s1", "eth0"), ("s2", "net1"), *damaged]
        await until(lambda: rig.clock.sleepers == 1)
        await rig.clock.advance(60.0)
        await settle()
        assert len(rig.calls("GC")) == 2, "hourly from then on"
        await until(lambda: rig.clock.sleepers == 1)
        await rig.clock.advance(3600.0)
        await until(lambda: len(rig.calls("GC")) == 4)


async def test_garbage_of_all_networks_in_use_is_collected(rig: Rig) -> None:
    """Each plugin is told the interfaces of all, so that it releases nothing of a pod that runs."""
    rig.network = NetworkManager(
        NetworkConfig(
            rig.directory / "conf", rig.directory / "attachments", clock=rig.clock, collect_garbage=True, max_networks=2
        ),
        Plugins(directories=(rig.directory,), timeout=10.0),
    )
    for number, plugin in (("20", "second"), ("30", "third")):
        other = {"cniVersion": "1.1.0", "name": f"net-{number}", "plugins": [{"type": plugin}]}
        (rig.directory / "conf" / f"{number}.conflist").write_text(json.dumps(other))
    await rig.start(plugins=[{"type": "first"}])
    await rig.network.attach(REQUEST)
    async with collecting(rig):
        await until(lambda: len(rig.calls("GC")) == 2 and rig.clock.sleepers == 1)
        assert reported(rig, "first") == reported(rig, "second") == [("s1", "eth0"), ("s1", "eth1")]
        assert (rig.input("GC", "first")["name"], rig.input("GC", "second")["name"]) == ("net", "net-20")
        await rig.clock.advance(3595.0)
        await until(lambda: rig.clock.sleepers == 1)
        assert len(rig.calls("GC")) == 2
        await rig.clock.advance(5.0)
        await until(lambda: len(rig.calls("GC")) == 4)


async def test_node_is_ready_when_the_plugins_of_all_networks_in_use_are(rig: Rig) -> None:
    rig.network = NetworkManager(
        NetworkConfig(rig.directory / "conf", rig.directory / "attachments", clock=rig.clock, max_networks=2),
        Plugins(directories=(rig.directory,), timeout=10.0),
    )
    for number, plugin in (("20", "second"), ("30", "third")):
        other = {"cniVersion": "1.1.0", "name": f"net-{number}", "plugins": [{"type": plugin}]}
        (rig.directory / "conf" / f"{number}.conflist").write_text(json.dumps(other))
    failing = rig.fail("STATUS", "second", '{"code": 50, "msg": "no daemon"}')
    await rig.start(plugins=[{"type": "first"}])
    assert "not asked yet" in rig.network.problem()
    async with following(rig):
        await until(lambda: "network net-20: CNI plugin second cannot take further pods" in rig.network.problem())
        failing.unlink()
        await until(lambda: rig.clock.sleepers == 1)
        await rig.clock.advance(5.0)
        await until(lambda: rig.network.problem() == "")
        assert {line.split()[1] for line in rig.calls("STATUS")} == {"first", "second"}


async def test_garbage_is_collected_an_hour_after_the_last_time_and_not_earlier(rig: Rig) -> None:
    await rig.start()
    async with collecting(rig):
        await until(lambda: len(rig.calls("GC")) == 2 and rig.clock.sleepers == 1)
        await rig.clock.advance(3595.0)
        await until(lambda: rig.clock.sleepers == 1)
        assert len(rig.calls("GC")) == 2
        await rig.clock.advance(5.0)
        await until(lambda: len(rig.calls("GC")) == 4)


async def test_nothing_is_attached_or_detached_during_a_collection(rig: Rig) -> None:
    """Else a plugin releases the address of a sandbox that was attached after the list was made."""
    await rig.start()
    await rig.network.attach(REQUEST)
    held = rig.hold("GC", "first")
    async with collecting(rig):
        await until(lambda: rig.calls("GC") != [])
        other = replace(REQUEST, sandbox=SandboxID("s2"))
        tasks = [
            asyncio.create_task(rig.network.attach(other), name="attach"),
            asyncio.create_task(rig.network.detach(REQUEST.sandbox), name="detach"),
        ]
        await settle()
        assert rig.calls("DEL") == [] and len(rig.calls("ADD")) == 2
        held.unlink()
        await asyncio.gather(*tasks)
        assert reported(rig) == [("s1", "eth0")]
        assert rig.network.held() == ["s2"]


async def test_a_collection_waits_for_sandboxes_that_are_being_attached(rig: Rig) -> None:
    await rig.start()
    held = rig.hold("ADD", "second")
    task = asyncio.create_task(rig.network.attach(REQUEST), name="attach")
    await until(lambda: len(rig.calls("ADD")) == 2)
    async with collecting(rig):
        await until(lambda: rig.clock.sleepers == 1)
        assert rig.calls("GC") == []
        held.unlink()
        await task
        await rig.clock.advance(5.0)
        await until(lambda: len(rig.calls("GC")) == 2)
        assert reported(rig) == [("s1", "eth0")]


async def test_nothing_is_collected_while_sandboxes_are_unknown_or_records_unreadable(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.start()
    async with collecting_but(rig, None):
        await until(lambda: rig.clock.sleepers == 1)

    def broken(path: Path) -> list[Path]:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "iterdir", broken)
    async with collecting(rig):
        await until(lambda: rig.clock.sleepers == 1)
    with pytest.raises((Permanent, Transient), match="cannot be listed"):
        rig.network.held()
    assert rig.calls("GC") == []


@pytest.mark.parametrize("forbidden", [True, "true", "True"])
async def test_network_that_forbids_collection_is_not_collected(rig: Rig, forbidden: object) -> None:
    await rig.start(disableGC=forbidden)
    async with collecting(rig):
        await until(lambda: rig.clock.sleepers == 1)
    assert rig.calls("GC") == []


async def test_nothing_is_collected_unless_it_is_configured(rig: Rig) -> None:
    await rig.start()
    config = NetworkConfig(rig.directory / "conf", rig.directory / "attachments", clock=rig.clock)
    await NetworkManager(config, Plugins(directories=(rig.directory,), timeout=10.0)).collect_garbage(list)
    assert rig.calls("GC") == []
