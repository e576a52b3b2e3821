"""Credential provider plugins: real processes, which are scripts that the tests write."""

import asyncio
import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from pykubelet.base import proc
from pykubelet.base.errors import NotFound
from pykubelet.kubelet.actuate.images import CredentialPlugins, PluginDeps, credential_plugins
from pykubelet.kubelet.actuate.images.plan.keyring import Owner, RegistryCredentials
from pykubelet.kubelet.actuate.images.plan.provider_protocol import ProviderAnswer
from pykubelet.kubelet.config.credential_providers import (
    CredentialProvider,
    CredentialProviders,
    ExecEnvVar,
    TokenAttributes,
)
from pykubelet.models.core_v1 import Pod, PodSpec, ServiceAccount
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.telemetry import telemetry
from pykubelet.testing.wait import until

V1: Final = "credentialprovider.kubelet.k8s.io/v1"
IMAGE: Final = "reg.example/team/app"


def pod(account: str = "") -> Pod:
    return Pod(
        metadata=ObjectMeta(name="web", namespace="shop", uid="uid-web"), spec=PodSpec(service_account_name=account)
    )


@dataclass
class Metrics:
    runs: list[tuple[str, bool]] = field(default_factory=list)
    hashes: list[str] = field(default_factory=list)

    def image_pulled(self, seconds: float, size_bytes: int) -> None: ...

    def credential_plugin(self, plugin: str, seconds: float, failed: bool) -> None:
        self.runs.append((plugin, failed))

    def credential_config(self, config_hash: str) -> None:
        self.hashes.append(config_hash)

    def pull_check(self, result: str) -> None: ...

    def image_requested(self, policy: str, present: bool | None, must_pull: bool | None) -> None: ...

    def pull_records(self, intents: int, records: int) -> None: ...


@dataclass
class Accounts:
    """The API server's service accounts, by name, with their annotations."""

    found: dict[str, dict[str, str]]
    token: str = "jwt-1"
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def service_account(self, namespace: str, name: str) -> ServiceAccount:
        if name not in self.found:
            raise NotFound(f'serviceaccounts "{name}" not found')
        metadata = ObjectMeta(namespace=namespace, name=name, uid=f"uid-{name}", annotations=self.found[name])
        return ServiceAccount(metadata=metadata)

    async def image_pull_token(self, pod: Pod, audience: str) -> str:
        self.asked.append((pod.metadata.uid, audience))
        return self.token


@dataclass
class Kit:
    directory: Path
    clock: VirtualClock = field(default_factory=VirtualClock)
    metrics: Metrics = field(default_factory=Metrics)
    accounts: Accounts | None = None
    deadline: float = 60.0

    def script(self, body: str, name: str = "plugin") -> None:
        path = self.directory / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def answering(self, *, before: str = "", name: str = "plugin", version: str = V1, **fields: object) -> None:
        """Write a plugin that keeps each request in ``NAME.log`` and prints the answer."""
        document = {"kind": "CredentialProviderResponse", "apiVersion": version, "cacheKeyType": "Image", **fields}
        (self.directory / f"{name}.json").write_text(json.dumps(document))
        self.script(f'cat >>"$0.log"\n{before}\ncat "$0.json"', name)

    def requests(self, name: str = "plugin") -> list[dict[str, object]]:
        log = self.directory / f"{name}.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def plugins(self, *configs: CredentialProvider) -> CredentialPlugins:
        deps = PluginDeps(accounts=self.accounts, telemetry=telemetry(self.clock, self.metrics), deadline=self.deadline)
        return CredentialPlugins(deps, CredentialProviders(self.directory, configs, "sha256:ab"))


def config(name: str = "plugin", cache: str = "0s", **fields: object) -> CredentialProvider:
    given = {"match_images": ("*.example",), "api_version": V1, **fields}
    return CredentialProvider(name=name, default_cache_duration=cache, **given)  # type: ignore[arg-type]


def login(user: str, location: str = "reg.example") -> dict[str, dict[str, str]]:
    return {location: {"username": user, "password": f"secret-of-{user}"}}


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


@pytest.mark.parametrize("version", [V1, V1 + "beta1", V1 + "alpha1"])
async def test_plugin_gets_request_arguments_and_environment(kit: Kit, version: str) -> None:
    kit.answering(before='echo "$*,$COLOR,${PATH:+path}" >"$0.env"', version=version, auth=login("anna"))
    environment = (ExecEnvVar(name="COLOR", value="blue"),)
    plugins = kit.plugins(config(api_version=version, args=("get", "--fast"), env=environment))
    assert await plugins.lookup(pod(), IMAGE) == (RegistryCredentials("anna", "secret-of-anna"),)
    assert kit.requests() == [{"kind": "CredentialProviderRequest", "apiVersion": version, "image": IMAGE}]
    assert (kit.directory / "plugin.env").read_text() == "get --fast,blue,path\n"
    assert (kit.metrics.runs, kit.metrics.hashes) == ([("plugin", False)], ["sha256:ab"])


async def test_image_that_does_not_match_runs_no_plugin(kit: Kit) -> None:
    kit.answering(auth=login("anna"))
    assert await kit.plugins(config()).lookup(pod(), "docker.io/library/busybox") == ()
    assert kit.requests() == []
    assert await kit.plugins().lookup(pod(), IMAGE) == ()


async def test_most_specific_location_of_all_plugins_comes_first(kit: Kit) -> None:
    kit.answering(name="one", auth=login("host1"))
    kit.answering(name="two", auth={**login("path", "reg.example/team"), **login("host2"), **login("no", "x.example")})
    found = await kit.plugins(config("one"), config("two")).lookup(pod(), IMAGE)
    assert [each.username for each in found] == ["path", "host1", "host2"]


@pytest.mark.parametrize(
    ("kind", "runs"),
    [("Image", [1, 2, 3]), ("Registry", [1, 1, 2]), ("Global", [1, 1, 1])],
)
async def test_answer_is_cached_for_what_its_key_type_covers(kit: Kit, kind: str, runs: list[int]) -> None:
    kit.answering(cacheKeyType=kind, cacheDuration="10m", auth=login("anna"))
    plugins, counts = kit.plugins(config()), []
    for image in (IMAGE, "reg.example/other", "two.example/other"):
        for _ in range(2):
            await plugins.lookup(pod(), image)
        counts.append(len(kit.requests()))
    assert counts == runs


async def test_cached_answer_expires(kit: Kit) -> None:
    kit.answering(auth=login("anna"))
    plugins = kit.plugins(config(cache="10m"))
    for seconds, runs in ((0, 1), (599, 1), (2, 2)):
        await kit.clock.advance(seconds)
        assert len(await plugins.lookup(pod(), IMAGE)) == 1
        assert len(kit.requests()) == runs
    kit.answering(auth=login("anna"), cacheDuration="0s")
    plugins = kit.plugins(config(cache="10m"))
    for _ in range(2):
        await plugins.lookup(pod(), IMAGE)
    assert len(kit.requests()) == 4


async def test_equal_calls_at_the_same_time_are_one_run(kit: Kit) -> None:
    kit.answering(before='until [ -e "$0.go" ]; do sleep 0.01; done', auth=login("anna"))
    plugins = kit.plugins(config())
    async with asyncio.TaskGroup() as group:
        same = [group.create_task(plugins.lookup(pod(), IMAGE)) for _ in range(5)]
        other = group.create_task(plugins.lookup(pod(), "reg.example/other"))
        await until(lambda: len(kit.requests()) == 2)
        (kit.directory / "plugin.go").touch()
    assert {each.result() for each in same} == {(RegistryCredentials("anna", "secret-of-anna"),)}
    assert len(other.result()) == 1
    assert len(kit.requests()) == 2


async def test_hanging_plugin_is_killed_and_others_still_count(kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
    kit.script('echo started >"$0.log"\nexec sleep 1000', "hangs")
    kit.answering(name="works", auth=login("anna"))
    kit.deadline = 0.3
    assert await kit.plugins(config("hangs")).lookup(pod(), IMAGE) == ()
    assert kit.metrics.runs == [("hangs", True)]
    assert "did not end within 0.3 s and was killed" in str(vars(caplog.records[0])["error"])
    kit.deadline = 60.0
    assert len(await kit.plugins(config("works")).lookup(pod(), IMAGE)) == 1


@pytest.mark.parametrize("stream", ["", ">&2"])
async def test_flooding_plugin_is_killed_at_the_limit(kit: Kit, stream: str, caplog: pytest.LogCaptureFixture) -> None:
    kit.script(f"exec yes secret-word {stream}")
    assert await kit.plugins(config()).lookup(pod(), IMAGE) == ()
    assert "printed more than 1 MiB and was killed" in str(vars(caplog.records[0])["error"])
    assert kit.metrics.runs == [("plugin", True)]
    assert "secret-word" not in str([vars(record) for record in caplog.records])


async def test_process_that_a_plugin_leaves_behind_is_killed(kit: Kit) -> None:
    kit.answering(before='sleep 1000 & echo $! >"$0.pid"', auth=login("anna"))
    assert len(await kit.plugins(config()).lookup(pod(), IMAGE)) == 1
    stat = Path("/proc", (kit.directory / "plugin.pid").read_text().strip(), "stat")
    await until(lambda: not stat.exists() or ") Z " in stat.read_text())


@pytest.mark.parametrize(("code", "killed"), [(0, False), (-9, True)])
async def test_error_says_that_a_plugin_was_killed_only_if_it_was(
    kit: Kit, code: int, killed: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def flooded(*_: object, **__: object) -> proc.CompletedProgram:
        return proc.CompletedProgram(code, b"", b"", truncated=True)

    monkeypatch.setattr(proc, "run", flooded)
    assert await kit.plugins(config()).lookup(pod(), IMAGE) == ()
    error = str(vars(caplog.records[0])["error"])
    assert "printed more than 1 MiB" in error
    assert ("was killed" in error) is killed


async def test_cancelled_pull_is_no_error_of_the_plugin(kit: Kit) -> None:
    kit.script('echo started >"$0.log"\nexec sleep 1000')
    task = asyncio.create_task(kit.plugins(config()).lookup(pod(), IMAGE))
    await until((kit.directory / "plugin.log").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert kit.metrics.runs == []


async def test_answer_that_was_kept_again_is_dropped_last(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credential_plugins, "_MAX_CACHED", 2)
    (plugin,) = kit.plugins(config())._plugins
    answer = ProviderAnswer("Global", 60.0, {})
    for key in ("a", "b", "a", "c"):
        plugin._keep(key, answer)
    assert [plugin._cached((key,)) for key in ("a", "b", "c")] == [answer, None, answer]


@pytest.mark.parametrize(
    "body",
    [
        "echo secret-word",
        "head -c 1000 /dev/zero; echo secret-word",
        """echo '{"kind":"CredentialProviderResponse","auth":{"a":{"password":"secret-word"}}}'""",
        "echo secret-word; exit 3",
        "echo secret-word; kill -9 $$",
        "",
    ],
)
async def test_failing_plugin_gives_nothing_and_its_output_is_not_logged(
    kit: Kit, body: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    kit.script(body)
    assert await kit.plugins(config()).lookup(pod(), IMAGE) == ()
    (record,) = [record for record in caplog.records if record.name.startswith("pykubelet")]
    assert (record.levelno, vars(record)["plugin"]) == (logging.WARNING, "plugin")
    assert "secret-word" not in str(vars(record))


async def test_missing_executable_gives_nothing(kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
    assert await kit.plugins(config()).lookup(pod(), IMAGE) == ()
    assert "does not exist" in str(vars(caplog.records[0])["error"])


def tokens(cache_type: str = "ServiceAccount", **fields: object) -> TokenAttributes:
    given = {"require_service_account": True, **fields}
    return TokenAttributes(service_account_token_audience="registry", cache_type=cache_type, **given)  # type: ignore[arg-type]


async def test_plugin_gets_token_and_annotations_of_the_account(kit: Kit) -> None:
    kit.accounts = Accounts({"web": {"a.io/role": "r", "a.io/zone": "z", "other": "x"}})
    kit.answering(auth=login("anna"))
    attributes = tokens(
        required_service_account_annotation_keys=("a.io/role",),
        optional_service_account_annotation_keys=("a.io/zone", "a.io/none"),
    )
    (found,) = await kit.plugins(config(token_attributes=attributes)).lookup(pod("web"), IMAGE)
    assert found.owner == Owner("ServiceAccount", "shop", "web", "uid-web")
    (request,) = kit.requests()
    assert request["serviceAccountToken"] == "jwt-1"
    assert request["serviceAccountAnnotations"] == {"a.io/role": "r", "a.io/zone": "z"}
    assert kit.accounts.asked == [("uid-web", "registry")]


@pytest.mark.parametrize(
    ("account", "attributes", "level"),
    [
        ("", tokens(), logging.DEBUG),
        ("web", tokens(required_service_account_annotation_keys=("a.io/none",)), logging.DEBUG),
        ("gone", tokens(), logging.WARNING),
    ],
)
async def test_plugin_is_not_run_without_what_it_needs_of_the_account(
    kit: Kit, account: str, attributes: TokenAttributes, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    kit.accounts = Accounts({"web": {}})
    kit.answering(auth=login("anna"))
    assert await kit.plugins(config(token_attributes=attributes)).lookup(pod(account), IMAGE) == ()
    assert kit.requests() == []
    assert [record.levelno for record in caplog.records if record.name.startswith("pykubelet")] == [level]


async def test_account_is_optional_if_the_configuration_says_so(kit: Kit) -> None:
    kit.answering(auth=login("anna"))
    plugins = kit.plugins(config(token_attributes=tokens(require_service_account=False)))
    (found,) = await plugins.lookup(pod(), IMAGE)
    assert found.owner is None
    assert "serviceAccountToken" not in kit.requests()[0]


async def test_account_without_a_cluster_gives_nothing(kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
    kit.answering(auth=login("anna"))
    assert await kit.plugins(config(token_attributes=tokens())).lookup(pod("web"), IMAGE) == ()
    assert "the agent has no cluster" in str(vars(caplog.records[0])["error"])


@pytest.mark.parametrize(("cache_type", "runs"), [("ServiceAccount", 1), ("Token", 2)])
async def test_new_token_is_a_new_run_only_with_the_cache_type_token(kit: Kit, cache_type: str, runs: int) -> None:
    kit.accounts = Accounts({"web": {}})
    kit.answering(auth=login("anna"))
    plugins = kit.plugins(config(cache="10m", token_attributes=tokens(cache_type)))
    for token in ("jwt-1", "jwt-2"):
        kit.accounts.token = token
        assert len(await plugins.lookup(pod("web"), IMAGE)) == 1
    assert len(kit.requests()) == runs


async def test_returned_token_is_refused_and_tokens_are_not_logged(kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    kit.accounts = Accounts({"web": {}}, token="jwt-secret")
    kit.answering(auth={"reg.example": {"username": "u", "password": "jwt-secret"}})
    assert await kit.plugins(config(token_attributes=tokens())).lookup(pod("web"), IMAGE) == ()
    assert len(await kit.plugins(config(token_attributes=tokens("Token"))).lookup(pod("web"), IMAGE)) == 1
    kit.script("cat >&2; exit 1")
    assert await kit.plugins(config(token_attributes=tokens())).lookup(pod("web"), IMAGE) == ()
    errors = [str(vars(record).get("error")) for record in caplog.records if record.name.startswith("pykubelet")]
    assert "which needs cacheType Token" in errors[0]
    assert '"serviceAccountToken":"…"' in errors[1]
    assert "jwt-secret" not in str([vars(record) for record in caplog.records])
