"""Attaching and detaching, with plugins that are scripts."""

import asyncio
import errno
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import asyncinotify
import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Invalid, PykubeletError, Transient
from pykubelet.criserver.cni import NetworkConfig, NetworkManager, PortMap, network_manager
from pykubelet.criserver.cni.plugins import Plugins
from pykubelet.criserver.types import SandboxID
from pykubelet.linux.filesystems.mounts import bind, unmount
from pykubelet.testing.blocking_calls import blocking_calls
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.wait import until
from tests.unit.criserver.cni.rig import ID, REQUEST, Rig


@pytest.fixture
async def rig(tmp_path: Path) -> Rig:
    rig = Rig(tmp_path)
    rig.configure("first", "second")
    await rig.network.start()
    return rig


async def test_plugins_are_chained_and_undone_in_reverse(rig: Rig) -> None:
    attached = await rig.network.attach(REQUEST)
    assert attached.ips == ("10.9.0.2",)
    assert rig.network.held() == [ID]
    passed = json.loads((rig.directory / "ADD.second.json").read_text())
    assert passed["prevResult"]["ips"] == [{"address": "10.9.0.1/24"}]
    await rig.network.check(ID)
    await rig.network.detach(ID)
    await rig.network.detach(ID)
    assert rig.calls() == ["ADD first", "ADD second", "CHECK first", "CHECK second", "DEL second", "DEL first"]
    assert rig.network.held() == []


async def test_pod_of_a_handler_with_its_own_directory_gets_that_network(rig: Rig, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    request = replace(REQUEST, conf_dir=str(own))
    with pytest.raises(Transient, match=f"no network configuration in {own}"):
        await rig.network.attach(request)
    document = {"cniVersion": "1.0.0", "name": "other", "plugins": [{"type": "second"}]}
    (own / "10.conflist").write_text(json.dumps(document))
    assert (await rig.network.attach(request)).ips == ("10.9.0.2",)
    (own / "10.conflist").unlink()
    await rig.network.detach(ID)
    assert rig.calls() == ["ADD second", "DEL second"]


def _several(rig: Rig, most: int, **config: Any) -> NetworkManager:
    """Three networks; the plugin of the last one does not exist."""
    for number, plugin in enumerate(("first", "second", "third"), 1):
        served = {"type": plugin, "capabilities": {"ips": True, "mac": True, "portMappings": True}}
        document = {"cniVersion": "1.0.0", "name": f"net{number}", "plugins": [served]}
        (rig.directory / "conf" / f"{number}0.conflist").write_text(json.dumps(document))
    return NetworkManager(
        NetworkConfig(rig.directory / "conf", rig.directory / "attachments", max_networks=most, **config),
        Plugins(directories=(rig.directory,), timeout=10.0),
    )


def _interfaces(rig: Rig) -> list[str]:
    path = rig.directory / "interfaces"
    found = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return found


async def test_pod_gets_the_first_networks_and_its_addresses_are_those_of_eth0(rig: Rig) -> None:
    network = _several(rig, 2, pod_addresses=True)
    await network.start()
    asked = replace(REQUEST, ips=("10.9.0.7",), mac="02:00:00:00:00:01", ports=(PortMap(80, 80, "tcp"),))
    assert (await network.attach(asked)).ips == ("10.9.0.1",)
    await network.check(ID)
    first, second = (json.loads((rig.directory / f"ADD.{name}.json").read_text()) for name in ("first", "second"))
    assert set(first["runtimeConfig"]) == {"ips", "mac", "portMappings"}
    # Two interfaces with one address would be none that works.
    assert set(second["runtimeConfig"]) == {"portMappings"} and "prevResult" not in second
    # The record is enough for another server, whatever is configured then.
    for path in (rig.directory / "conf").iterdir():
        path.unlink()
    again = _several(rig, 1)
    await again.start()
    await again.detach(ID)
    assert (
        json.loads((rig.directory / "DEL.second.json").read_text())["prevResult"]["ips"][0]["address"] == "10.9.0.2/24"
    )
    assert again.held() == []
    assert _interfaces(rig) == [
        *("ADD first eth0", "ADD second eth1", "CHECK first eth0", "CHECK second eth1"),
        *("DEL second eth1", "DEL first eth0"),
    ]


async def test_failed_further_network_is_taken_back_with_the_first(rig: Rig) -> None:
    network = _several(rig, 0)
    await network.start()
    with pytest.raises(Transient, match="third"):
        await network.attach(REQUEST)
    # Nothing can tell the missing plugin to release what it has not given; the others release what they have.
    assert network.held() == [ID]
    assert _interfaces(rig) == ["ADD first eth0", "ADD second eth1", "DEL second eth1", "DEL first eth0"]
    (rig.directory / "third").write_text((rig.directory / "second").read_text().replace("second", "third"))
    (rig.directory / "third").chmod(0o755)
    await network.detach(ID)
    assert _interfaces(rig) == ["DEL third eth2", "DEL second eth1", "DEL first eth0"]
    assert network.held() == []


@pytest.mark.parametrize("reached", ["first", "second"])
async def test_server_that_dies_while_it_attaches_leaves_no_address_on_any_network(rig: Rig, reached: str) -> None:
    """Its record, from before the first ADD, is all that the next one has."""
    network = _several(rig, 2)
    await network.start()
    script = rig.directory / reached
    normal = script.read_text()
    script.write_text(normal.replace("exit 0", "[ $CNI_COMMAND = ADD ] && touch $0-hangs && sleep 60; exit 0"))
    attaching = asyncio.create_task(network.attach(REQUEST), name="attach")
    await until(lambda: (rig.directory / f"{reached}-hangs").exists())
    saved = (rig.directory / "attachments" / "s1.json").read_bytes()
    attaching.cancel()
    with suppress(asyncio.CancelledError):
        await attaching
    script.write_text(normal)
    (rig.directory / "attachments" / "s1.json").write_bytes(saved)
    for path in (rig.directory / "conf").iterdir():
        path.unlink()
    again = NetworkManager(
        NetworkConfig(rig.directory / "conf", rig.directory / "attachments"),
        Plugins(directories=(rig.directory,), timeout=10.0),
    )
    await again.start()
    assert again.held() == [ID]
    _interfaces(rig)
    await again.detach(ID)
    assert _interfaces(rig) == ["DEL second eth1", "DEL first eth0"] and again.held() == []


async def test_lost_record_of_several_networks_is_made_up_for(rig: Rig) -> None:
    network = _several(rig, 2)
    await network.start()
    await network.attach(REQUEST)
    (rig.directory / "attachments" / "s1.json").write_text("damaged")
    _interfaces(rig)
    (rig.directory / "fail-DEL-second").touch()
    with pytest.raises(Transient, match="second"):
        await network.detach(ID, REQUEST)
    (rig.directory / "fail-DEL-second").unlink()
    _interfaces(rig)
    await network.detach(ID, REQUEST)
    assert _interfaces(rig) == ["DEL second eth1", "DEL first eth0"] and network.held() == []


async def test_sandbox_is_detached_from_several_networks_with_two_blocking_calls(rig: Rig) -> None:
    """Each is a hand-over to a thread and back."""
    network = _several(rig, 2)
    await network.start()
    await network.attach(REQUEST)
    with blocking_calls() as calls:
        await network.detach(ID)
    assert calls == ["load", "_remove"]


@pytest.mark.parametrize("record", ["whole", "damaged"])
async def test_network_that_cannot_be_detached_keeps_no_address_on_another(rig: Rig, record: str) -> None:
    network = _several(rig, 2)
    await network.start()
    await network.attach(REQUEST)
    if record == "damaged":
        (rig.directory / "attachments" / "s1.json").write_text("damaged")
    failing = [rig.directory / f"fail-DEL-{name}" for name in ("second", "first")]
    for path in failing:
        path.touch()
    _interfaces(rig)
    with pytest.raises(Transient, match=r"second failed \(DEL\).*first failed \(DEL\)"):
        await network.detach(ID, REQUEST)
    failing[1].unlink()
    with pytest.raises(Transient, match="second failed") as raised:
        await network.detach(ID, REQUEST)
    assert "first" not in str(raised.value) and network.held() == [ID]
    failing[0].unlink()
    await network.detach(ID, REQUEST)
    assert _interfaces(rig) == ["DEL second eth1", "DEL first eth0"] * 3 and network.held() == []


async def test_copy_of_a_configuration_is_no_further_network(rig: Rig) -> None:
    """Plugins name their rules and records by network and sandbox: the second DEL would remove those of the first."""
    network = _several(rig, 2)
    (rig.directory / "conf" / "11-copy.conflist").write_bytes((rig.directory / "conf" / "10.conflist").read_bytes())
    await network.start()
    await network.attach(REQUEST)
    assert _interfaces(rig) == ["ADD first eth0", "ADD second eth1"]
    shown = network.described()["networks"]
    assert isinstance(shown, list) and [each.get("interface") for each in shown] == ["eth0", None, "eth1", None]
    (rig.directory / "attachments" / "s1.json").write_text("damaged")
    await network.detach(ID, REQUEST)
    # All that are configured, and those in use last, each by its own interface.
    assert _interfaces(rig) == ["DEL first eth0", "DEL second eth1", "DEL first eth0"]


async def test_number_of_networks_of_a_pod_is_limited(rig: Rig) -> None:
    network = _several(rig, 0)
    for number in range(20):
        document = {"cniVersion": "1.0.0", "name": f"more{number}", "plugins": [{"type": "first"}]}
        (rig.directory / "conf" / f"0{number:02}.conflist").write_text(json.dumps(document))
    await network.start()
    await network.attach(REQUEST)
    added = _interfaces(rig)
    await network.detach(ID)
    deleted = _interfaces(rig)
    assert [line.split()[2] for line in added] == [f"eth{index}" for index in range(16)]
    assert [line.replace("DEL", "ADD") for line in reversed(deleted)] == added


async def test_record_of_an_earlier_version_is_read(rig: Rig) -> None:
    await rig.network.attach(REQUEST)
    record = rig.directory / "attachments" / "s1.json"
    old = json.loads(record.read_text())
    del old["further"], old["request"]["max_networks"]
    record.write_text(json.dumps(old))
    await rig.network.detach(ID)
    assert rig.calls()[2:] == ["DEL second", "DEL first"]


async def test_networks_of_a_handler_have_a_number_of_their_own(rig: Rig, tmp_path: Path) -> None:
    network = _several(rig, 1)
    await network.start()
    (rig.directory / "conf" / "30.conflist").unlink()
    request = replace(REQUEST, conf_dir=str(rig.directory / "conf"))
    await network.attach(request)
    await network.attach(replace(request, sandbox=SandboxID("s2"), max_networks=2))
    assert _interfaces(rig) == ["ADD first eth0", "ADD first eth0", "ADD second eth1"]
    shown = network.described()["networks"]
    assert isinstance(shown, list) and [each.get("interface") for each in shown] == ["eth0", None, None]


@pytest.mark.parametrize("asked", [{"ips": ("10.9.0.7",)}, {"mac": "02:00:00:00:00:01"}])
async def test_address_of_a_pods_choice_is_refused_unless_it_is_configured(rig: Rig, asked: dict[str, Any]) -> None:
    """Else a pod takes the hardware address of another one, and gets what is sent to that."""
    request = replace(REQUEST, **asked)
    with pytest.raises(Invalid, match=r"pod default/web asks for an address .* pod_addresses"):
        await rig.network.attach(request)
    assert rig.calls() == [] and rig.network.held() == []
    directory = rig.directory
    config = NetworkConfig(directory / "conf", directory / "attachments", pod_addresses=True)
    allowing = NetworkManager(config, Plugins(directories=(directory,), timeout=10.0))
    await allowing.start()
    await allowing.attach(request)
    await allowing.detach(ID)


async def test_a_failed_add_is_taken_back(rig: Rig) -> None:
    (rig.directory / "fail-ADD-second").touch()
    with pytest.raises(Transient, match=r"second failed .ADD.: no addresses"):
        await rig.network.attach(REQUEST)
    assert rig.calls() == ["ADD first", "ADD second", "DEL second", "DEL first"]
    assert rig.network.held() == []


async def test_an_address_whose_release_failed_is_not_forgotten(rig: Rig) -> None:
    await rig.network.attach(REQUEST)
    (rig.directory / "fail-DEL-second").touch()
    with pytest.raises(Transient, match="DEL"):
        await rig.network.detach(ID)
    assert rig.network.held() == [ID]
    (rig.directory / "fail-DEL-second").unlink()
    # Even if the network is no longer configured, and after a restart.
    rig.configure("other")
    again = NetworkManager(
        NetworkConfig(rig.directory / "conf", rig.directory / "attachments"),
        Plugins(directories=(rig.directory,), timeout=10.0),
    )
    await again.start()
    await again.detach(ID)
    assert again.held() == []


async def test_address_on_a_read_only_file_system_is_not_released_in_vain(rig: Rig) -> None:
    """host-local reports success for an address that it cannot remove, so it must not be asked then."""
    attachments = str(rig.directory / "attachments")
    await rig.network.attach(REQUEST)
    before = rig.calls()
    bind(attachments, attachments, read_only=True)
    try:
        with pytest.raises(PykubeletError, match="Read-only"):
            await rig.network.detach(ID)
        assert rig.calls() == before
    finally:
        unmount(attachments, lazy=True)
    await rig.network.detach(ID)
    assert rig.calls()[len(before) :] == ["DEL second", "DEL first"] and rig.network.held() == []


@pytest.mark.parametrize("field", ["uid", "pod", "namespace"])
async def test_a_pod_whose_plugins_cannot_be_given_its_name_leaves_no_record(rig: Rig, field: str) -> None:
    with pytest.raises(Invalid, match="semicolon"):
        await rig.network.attach(replace(REQUEST, **{field: "a;b"}))
    assert rig.network.held() == [] and rig.calls() == []


@pytest.mark.parametrize("answer", ["", "{}", '{"ips": []}', '{"ips": [{"address": "nonsense"}]}'])
async def test_a_plugin_that_gives_no_address_fails_the_pod(rig: Rig, answer: str) -> None:
    (rig.directory / "second").write_text(
        f"#!/bin/sh\ncat > /dev/null\n[ $CNI_COMMAND = ADD ] && echo '{answer}'\nexit 0\n"
    )
    with pytest.raises(PykubeletError, match=r"answered nothing to ADD|no address for the pod"):
        await rig.network.attach(REQUEST)
    assert rig.network.held() == []
    assert rig.calls()[-1] == "DEL first"


async def test_an_attachment_that_is_too_long_to_be_stored_is_refused_before_plugins_run(rig: Rig) -> None:
    with pytest.raises(Invalid, match="can be stored"):
        await rig.network.attach(replace(REQUEST, annotations={"long": "x" * 5_000_000}))
    assert rig.network.held() == [] and rig.calls() == []


async def test_plugins_of_the_networks_directory_are_called_behind_its_own(rig: Rig) -> None:
    further = rig.directory / "conf" / "net"
    further.mkdir()
    (further / "20.conf").write_text('{"type": "second"}')
    (further / "10.conf").write_text('{"type": "first"}')
    (further / "00.json").write_text("not read")
    rig.configure("second")
    await rig.network.start()
    await rig.network.attach(REQUEST)
    assert rig.calls() == ["ADD second", "ADD first", "ADD second"]
    (further / "10.conf").write_text('{"type": "../first"}')
    await rig.network.start()
    (problem,) = rig.network.problems()
    assert "10.conf.type '../first' must be the bare name" in problem
    document = {"cniVersion": "1.1.0", "name": "net", "loadOnlyInlinedPlugins": True, "plugins": [{"type": "first"}]}
    (rig.directory / "conf" / "10.conflist").write_text(json.dumps(document))
    await rig.network.start()
    assert rig.network.problem() == "network net: its plugins were not asked yet"
    document["loadOnlyInlinedPlugins"] = "maybe"
    (rig.directory / "conf" / "10.conflist").write_text(json.dumps(document))
    await rig.network.start()
    (problem,) = rig.network.problems()
    assert "loadOnlyInlinedPlugins must be true or false" in problem


def _damaged(rig: Rig, content: bytes) -> None:
    (rig.directory / "attachments" / f"{ID}.json").write_bytes(content)


@pytest.mark.parametrize("content", [b"", b'{"request": {"sandbox": "s1", "net', b"\xff" * 100, b"[]"])
async def test_an_address_is_released_though_its_attachment_is_damaged(rig: Rig, content: bytes) -> None:
    await rig.network.attach(REQUEST)
    _damaged(rig, content)
    (rig.directory / "conf" / "20.conf").write_text('{"cniVersion": "1.0.0", "name": "old", "type": "absent"}')
    (rig.directory / "fail-DEL-first").touch()
    again = NetworkManager(
        NetworkConfig(
            rig.directory / "conf", rig.directory / "attachments", netns_of=lambda _: Path("/proc/self/ns/net")
        ),
        Plugins(directories=(rig.directory,), timeout=10.0),
    )
    await again.start()
    with pytest.raises(Transient, match=r"first failed .DEL."):
        await again.detach(ID)
    assert again.held() == [ID]
    (rig.directory / "fail-DEL-first").unlink()
    await again.detach(ID)
    assert again.held() == []
    assert rig.calls()[2:] == ["DEL second", "DEL first"] * 2
    assert (rig.directory / "calls").read_text().endswith("DEL first /proc/self/ns/net\n")
    assert json.loads((rig.directory / "DEL.first.json").read_text())["name"] == "net"


async def test_without_attachment_and_configuration_it_is_tried_again(rig: Rig) -> None:
    await rig.network.attach(REQUEST)
    _damaged(rig, b"")
    (rig.directory / "conf" / "10.conflist").rename(rig.directory / "away")
    with pytest.raises(Transient, match="address of sandbox s1 cannot be released: no network configuration"):
        await rig.network.detach(ID)
    assert rig.network.held() == [ID]
    (rig.directory / "away").rename(rig.directory / "conf" / "10.conflist")
    await rig.network.detach(ID)
    assert rig.network.held() == []


async def test_a_lost_attachment_is_made_up_for_when_there_is_an_address(rig: Rig) -> None:
    await rig.network.attach(REQUEST)
    (rig.directory / "attachments" / f"{ID}.json").unlink()
    await rig.network.detach(ID)
    assert rig.calls() == ["ADD first", "ADD second"]
    await rig.network.detach(ID, REQUEST)
    assert rig.calls()[2:] == ["DEL second", "DEL first"]


async def test_without_a_configuration_there_is_no_network(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    await rig.network.start()
    assert "no network configuration" in rig.network.problem()
    with pytest.raises(Transient, match="not ready"):
        await rig.network.attach(REQUEST)
    assert rig.network.held() == []


async def test_a_default_network_is_written_once(tmp_path: Path) -> None:
    config = NetworkConfig(tmp_path / "conf", tmp_path / "attachments", "b0", "10.77.0.0/24")
    network = NetworkManager(config, Plugins(directories=(tmp_path,), timeout=1.0))
    await network.start()
    assert network.problem() == ""
    (written,) = (tmp_path / "conf").iterdir()
    assert json.loads(written.read_text())["plugins"][0]["bridge"] == "b0"


async def test_a_plugin_that_is_missing_is_named(rig: Rig) -> None:
    rig.configure("first", "absent")
    await rig.network.start()
    with pytest.raises(Exception, match="absent is in none of"):
        await rig.network.attach(REQUEST)


async def test_a_plugin_that_went_away_does_not_take_the_address_along(rig: Rig) -> None:
    await rig.network.attach(REQUEST)
    (rig.directory / "first").unlink()
    with pytest.raises(Transient, match="first is in none of"):
        await rig.network.detach(ID)
    assert rig.network.held() == [ID]


async def test_directory_that_is_removed_and_created_again_is_followed(rig: Rig) -> None:
    following = asyncio.create_task(rig.network.run(), name="network")
    try:
        directory = rig.directory / "conf"
        for _ in range(2):
            (directory / "10.conflist").unlink(missing_ok=True)
            directory.rmdir()
            await until(lambda: "no network configuration" in rig.network.problem() and directory.is_dir())
            rig.configure("first", "second")
            await until(lambda: rig.network.problem() == "")
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


@asynccontextmanager
async def followed(rig: Rig) -> AsyncIterator[None]:
    """Follow the configuration directory within the block."""
    following = asyncio.create_task(rig.network.run(), name="network")
    try:
        yield
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


def _named(rig: Rig) -> list[str]:
    networks = rig.network.described()["networks"]
    assert isinstance(networks, list)
    return [network["name"] for network in networks]


@pytest.mark.parametrize(("link", "target"), [("conf", "2/conf"), ("current", "2")])
@pytest.mark.parametrize("at_once", [True, False])
async def test_directory_whose_link_leads_elsewhere_is_followed(
    rig: Rig, link: str, target: str, at_once: bool
) -> None:
    """A link on the way that is replaced, in one step or in two, between which no directory must be created."""
    top = rig.directory
    for version in ("1", "2", "3"):
        (top / version / "conf").mkdir(parents=True)
        text = (top / "conf" / "10.conflist").read_text().replace('"net"', f'"net{version}"')
        (top / version / "conf" / "10.conflist").write_text(text)
    (top / "conf").rename(top / "former")
    (top / link).symlink_to(target.replace("2", "1"))
    rig.network = rig.made(top / link / "conf" if link == "current" else top / "conf")
    async with followed(rig):
        await until(lambda: _named(rig) == ["net1"])
        for version in ("2", "3"):
            if not at_once:
                (top / link).unlink()
                await until(lambda: rig.network.problem() != "")
            (top / "new").symlink_to(target.replace("2", version))
            (top / "new").rename(top / link)
            await until(lambda version=version: _named(rig) == [f"net{version}"])  # type: ignore[misc]
        text = text.replace('"net3"', '"other"')
        (top / "3" / "conf" / "10.conflist").write_text(text)
        await until(lambda: _named(rig) == ["other"])
    assert (top / link).is_symlink() and rig.network.problem() == ""


async def test_configuration_is_read_though_no_inotify_instance_is_left(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(asyncinotify, "Inotify", exhausted)
    monkeypatch.setattr(network_manager, "_LOOK_EVERY", 0.05)
    (rig.directory / "conf" / "10.conflist").unlink()
    following = asyncio.create_task(rig.network.run(), name="network")
    try:
        await until(lambda: "no network configuration" in rig.network.problem())
        rig.configure("first", "second")
        await until(lambda: rig.network.problem() == "")
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


async def test_invalid_file_leaves_its_former_version_in_force(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    directory = rig.directory / "conf"
    (directory / "10.conflist").write_text("{")
    (directory / "05-never-valid.conflist").write_text("[]")
    await rig.network.reload()
    await rig.network.reload()
    assert rig.network.problem() == ""
    assert (await rig.network.attach(REQUEST)).ips == ("10.9.0.2",)
    assert [Path(problem.partition(": ")[0]).name for problem in rig.network.problems()] == [
        "05-never-valid.conflist",
        "10.conflist",
    ]
    assert rig.network.problems()[1].endswith("(its former version is in force)")
    assert caplog.text.count("network configuration file refused") == 2
    file = str(directory / "10.conflist")
    assert rig.network.described()["networks"] == [
        {"file": file, "name": "net", "cniVersion": "1.0.0", "plugins": ["first", "second"], "interface": "eth0"}
    ]
    rig.configure("first")
    (directory / "05-never-valid.conflist").unlink()
    await rig.network.reload()
    assert rig.network.problems() == []
    (directory / "10.conflist").unlink()
    await rig.network.reload()
    assert "no network configuration" in rig.network.problem()
    await rig.network.detach(ID)


async def test_file_that_is_about_to_be_written_is_no_error(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("05-new.conflist", "10.conflist"):
        (rig.directory / "conf" / name).write_text("")
    await rig.network.reload()
    assert (rig.network.problem(), rig.network.problems(), caplog.records) == ("", [], [])
    assert (await rig.network.attach(REQUEST)).ips == ("10.9.0.2",)
    await rig.network.detach(ID)


async def test_releases_of_one_sandbox_do_not_meet(rig: Rig) -> None:
    await rig.network.attach(REQUEST)
    await asyncio.gather(*(rig.network.detach(REQUEST.sandbox) for _ in range(3)))
    assert [call.split()[0] for call in rig.calls()] == ["ADD", "ADD", "DEL", "DEL"]


def _errors(caplog: pytest.LogCaptureFixture) -> str:
    return " ".join(str(getattr(record, "error", "")) for record in caplog.records)


@pytest.mark.parametrize("works", [True, False])
async def test_default_network_masquerades_its_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, works: bool
) -> None:
    """From the server's start on, beside the rules for loopback addresses; without the first rule no pod is attached.

    Rules that another program has removed are made again although no pod starts.
    """
    said = """echo '{"ips": [{"address": "10.77.0.2/24"}]}'"""
    for name, text in (
        ("iptables", f'echo "$4" >> {tmp_path}/calls; {"" if works else "exit 3"}'),
        ("bridge", f"cat > {tmp_path}/bridge.json; echo bridge >> {tmp_path}/calls; {said}"),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    clock = VirtualClock()
    config = NetworkConfig(tmp_path / "conf", tmp_path / "attachments", "b0", "10.77.0.0/24", clock=clock)
    network = NetworkManager(config, Plugins(directories=(tmp_path,), timeout=10.0))
    await network.start()
    firewall = asyncio.create_task(network.run(), name="network")
    await until(lambda: (tmp_path / "calls").exists() and (works or "cannot masquerade" in _errors(caplog)))
    if works:
        await network.attach(REQUEST)
        calls = ["-C", "-C", "-C", "bridge"]
        assert (tmp_path / "calls").read_text().split() == calls
        assert "ipMasq" not in (tmp_path / "bridge.json").read_text()
        await clock.advance(60)
        await until(lambda: (tmp_path / "calls").read_text().split() == [*calls, "-C", "-C", "-C"])
    else:
        with pytest.raises(Transient, match="cannot masquerade"):
            await network.attach(REQUEST)
    firewall.cancel()
    with suppress(asyncio.CancelledError):
        await firewall
