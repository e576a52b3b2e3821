"""The registry credentials of the node."""

import asyncio
import base64
import json
import os
from pathlib import Path

import pytest

from pykubelet.kubelet.actuate.images.node_credentials import NodeCredentials, credential_files
from pykubelet.kubelet.actuate.images.plan.keyring import RegistryCredentials
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.wait import until

IMAGE = "reg.example/app"


def entry(user: str) -> dict[str, dict[str, str]]:
    return {"reg.example": {"auth": base64.b64encode(f"{user}:secret".encode()).decode()}}


def test_files_in_their_order() -> None:
    found = [str(path) for path in credential_files(Path("/var/lib/kubelet"), "/root")]
    assert found == [
        "/var/lib/kubelet/config.json",
        "/root/.docker/config.json",
        "/.docker/config.json",
        "/var/lib/kubelet/.dockercfg",
        "/root/.dockercfg",
        "/.dockercfg",
    ]
    assert len(credential_files(Path("/a"), None)) == 4


async def test_first_valid_file_counts_and_changes_are_seen(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second, legacy = tmp_path / "a" / "config.json", tmp_path / "config.json", tmp_path / ".dockercfg"
    first.parent.mkdir()
    node = NodeCredentials([first, second, legacy], VirtualClock())
    assert await node.lookup(IMAGE) == ()
    legacy.write_text(json.dumps(entry("old")))
    assert await node.lookup(IMAGE) == (RegistryCredentials("old", "secret"),)
    second.write_text(json.dumps({"auths": entry("new")}))
    assert await node.lookup(IMAGE) == (RegistryCredentials("new", "secret"),)
    assert caplog.text == ""
    for _ in range(2):
        first.write_text("{")
        assert await node.lookup(IMAGE) == (RegistryCredentials("new", "secret"),)
    assert caplog.text.count("not used") == 1
    assert str(first) in str(vars(caplog.records[0])["error"])
    first.write_text(json.dumps({"currentContext": "default"}))
    assert await node.lookup(IMAGE) == (), "a file without auths has no credentials"
    first.unlink()
    first.mkdir()
    assert await node.lookup(IMAGE) == (RegistryCredentials("new", "secret"),)


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A credential helper ``test`` that knows two registries."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    path = directory / "docker-credential-test"
    path.write_text(
        """#!/bin/sh
read -r server
echo "$server" >>"$0.log"
case "$server" in
reg.example) echo '{"Username":"helped","Secret":"secret-word"}' ;;
token.example) echo '{"Username":"<token>","Secret":"secret-word"}' ;;
bad.example) echo secret-word; exit 3 ;;
*) echo credentials not found in native keychain; exit 1 ;;
esac
"""
    )
    path.chmod(0o755)
    return path


async def test_credential_helper_is_asked_before_the_entries_of_the_file(tmp_path: Path, helper: Path) -> None:
    file = tmp_path / "config.json"
    node = NodeCredentials([file], VirtualClock())
    file.write_text(json.dumps({"auths": {"reg.example": {}, "other.example": {}}, "credsStore": "test"}))
    assert await node.lookup(IMAGE) == (RegistryCredentials("helped", "secret-word"),)
    assert await node.lookup("token.example/app") == (RegistryCredentials("", "", identity_token="secret-word"),)
    assert await node.lookup("other.example/app") == ()
    assert await node.lookup("docker.io/library/app") == ()
    log = helper.with_name("docker-credential-test.log")
    servers = ["reg.example", "token.example", "other.example", "https://index.docker.io/v1/"]
    assert log.read_text().split() == servers
    file.write_text(json.dumps({"auths": entry("file"), "credHelpers": {"reg.example": "test"}}))
    assert await node.lookup(IMAGE) == (
        RegistryCredentials("helped", "secret-word"),
        RegistryCredentials("file", "secret"),
    )
    assert await node.lookup("other.example/app") == ()
    assert len(log.read_text().split()) == len(servers) + 1, "no helper is named for the other registry"


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"credsStore": "test"}, "docker-credential-test ended with exit code 3"),
        ({"credsStore": "none"}, "docker-credential-none is not installed"),
        ({"credHelpers": {"bad.example": "../test"}}, "credHelpers: '../test' is not the name of a helper"),
    ],
)
async def test_failing_helper_leaves_the_entries_of_the_file(
    tmp_path: Path, helper: Path, config: dict[str, object], error: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "config.json"
    auth = base64.b64encode(b"file:pw").decode()
    file.write_text(json.dumps({"auths": {"bad.example": {"auth": auth}}, **config}))
    assert await NodeCredentials([file], VirtualClock()).lookup("bad.example/app") == (
        RegistryCredentials("file", "pw"),
    )
    (record,) = caplog.records
    assert error in str(vars(record)["error"])
    assert vars(record)["file"] == str(file)
    assert "secret-word" not in str(vars(record))


async def test_answer_of_a_helper_counts_for_a_minute_or_until_the_file_changes(tmp_path: Path, helper: Path) -> None:
    file, clock = tmp_path / "config.json", VirtualClock()
    node = NodeCredentials([file], clock)
    asked = helper.with_name("docker-credential-test.log")
    file.write_text(json.dumps({"credsStore": "test"}))
    for _ in range(20):
        assert await node.lookup(IMAGE) == (RegistryCredentials("helped", "secret-word"),)
        assert await node.lookup("other.example/app") == ()
    assert asked.read_text().split() == ["reg.example", "other.example"]
    await clock.advance(60)
    assert await node.lookup(IMAGE) == (RegistryCredentials("helped", "secret-word"),)
    assert len(asked.read_text().split()) == 3
    file.write_text(json.dumps({"auths": {"other.example": {}}, "credsStore": "test"}))
    assert await node.lookup("other.example/app") == ()
    assert len(asked.read_text().split()) == 4


async def test_oldest_answers_of_helpers_are_forgotten(
    tmp_path: Path, helper: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykubelet.kubelet.actuate.images.node_credentials._MAX_ANSWERS", 2)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"credsStore": "test"}))
    node = NodeCredentials([file], VirtualClock())
    for name in ("one", "two", "three", "three", "two", "one"):
        assert await node.lookup(f"{name}.example/app") == ()
    asked = helper.with_name("docker-credential-test.log").read_text().split()
    assert asked == ["one.example", "two.example", "three.example", "one.example"]


async def test_helpers_of_many_registries_run_a_few_at_a_time(tmp_path: Path, helper: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"credsStore": "test"}))
    helper.write_text(
        f"""#!/bin/sh
echo $$ >>"$0.running"
until [ -e "{tmp_path}/go" ]; do sleep 0.05; done
echo credentials not found in native keychain; exit 1
"""
    )
    running = helper.with_name("docker-credential-test.running")
    node = NodeCredentials([file], VirtualClock())
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(node.lookup(f"r{number}.example/app")) for number in range(20)]
        await until(lambda: running.exists() and len(running.read_text().split()) >= 8)
        assert len(running.read_text().split()) == 8
        (tmp_path / "go").touch()
    assert [task.result() for task in tasks] == [()] * 20
    assert len(running.read_text().split()) == 20


@pytest.mark.parametrize("kind", ["fifo", "device"])
async def test_file_that_is_no_regular_one_is_not_read(tmp_path: Path, kind: str) -> None:
    first, second = tmp_path / "a" / "config.json", tmp_path / "config.json"
    first.parent.mkdir()
    if kind == "fifo":
        os.mkfifo(first)
    else:
        first.symlink_to("/dev/zero")
    second.write_text(json.dumps({"auths": entry("new")}))
    assert await NodeCredentials([first, second], VirtualClock()).lookup(IMAGE) == (
        RegistryCredentials("new", "secret"),
    )


async def test_answer_about_a_former_file_is_not_kept(tmp_path: Path, helper: Path) -> None:
    file, go = tmp_path / "config.json", tmp_path / "go"
    file.write_text(json.dumps({"credsStore": "test"}))
    text = helper.read_text()
    helper.write_text(text.replace("case", f'until [ -e "{go}" ]; do sleep 0.05; done\ncase', 1))
    asked = helper.with_name("docker-credential-test.log")
    node = NodeCredentials([file], VirtualClock())
    async with asyncio.TaskGroup() as group:
        group.create_task(node.lookup(IMAGE))
        await until(lambda: asked.exists() and asked.read_text().split() == ["reg.example"])
        file.write_text(json.dumps({"auths": {"reg.example": {}}, "credsStore": "test"}))
        group.create_task(node.lookup("other.example/app"))
        await until(lambda: len(asked.read_text().split()) == 2)
        go.touch()
    assert await node.lookup(IMAGE) == (RegistryCredentials("helped", "secret-word"),)
    assert asked.read_text().split() == ["reg.example", "other.example", "reg.example"]
