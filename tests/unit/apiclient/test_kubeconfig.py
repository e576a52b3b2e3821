"""kubeconfig files, exec plugins, and decoding of watch streams."""

import asyncio
import base64
import json
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from pykubelet.apiclient import ApiClient, ClusterConfig, User, load_kubeconfig
from pykubelet.apiclient import credentials as credentials_module
from pykubelet.apiclient.certificates import client_template
from pykubelet.apiclient.certificates.request import new_key, signing_request
from pykubelet.apiclient.credentials import PLUGIN_PAUSE, Credentials, RotatedCertificate
from pykubelet.apiclient.exec_plugin import run_plugin
from pykubelet.apiclient.kubeconfig import ExecPlugin, Pem
from pykubelet.apiclient.pages import Pages
from pykubelet.apiclient.resources import PODS
from pykubelet.apiclient.watch import Lines, WatchType, read_event
from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Conflict, Invalid, PykubeletError, Transient
from pykubelet.base.files.decoding import shallow
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.cluster_ca import ClusterAuthority
from pykubelet.testing.wait import until

CONFIG = """
apiVersion: v1
kind: Config
current-context: it
clusters:
- name: c
  cluster: {{server: "https://10.0.0.1:6443/", certificate-authority: pki/ca.crt}}
users:
- name: u
  user: {user}
contexts:
- name: it
  context: {{cluster: c, user: u, namespace: ignored}}
"""
SERVER = (
    "{current-context: x, contexts: [{name: x, context: {cluster: y}}], clusters: [{name: y, cluster: {server: '%s'}}]}"
)

TOKEN = {"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "t0k"}}
NO_ZONE = {**TOKEN, "status": {"token": "secret-word", "expirationTimestamp": "0001-01-01T00:00:00"}}


def write(tmp_path: Path, user: object) -> Path:
    path = tmp_path / "kubelet.conf"
    path.write_text(CONFIG.format(user=json.dumps(user)))
    return path


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    config = load_kubeconfig(write(tmp_path, {"client-certificate": "a.pem", "client-key": "/abs/k.pem"}))
    assert config.server == "https://10.0.0.1:6443"
    assert config.ca.file == str(tmp_path / "pki/ca.crt")
    assert (config.user.certificate.file, config.user.key.file) == (str(tmp_path / "a.pem"), "/abs/k.pem")


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({}, f"Basic {base64.b64encode(b'me:pa55/word').decode()}"),
        ({"token": "t0k"}, "Bearer t0k"),
        ({"username": "a", "password": "b"}, f"Basic {base64.b64encode(b'a:b').decode()}"),
    ],
)
async def test_password_in_the_url_of_the_server_is_a_credential_and_in_no_error(
    tmp_path: Path, user: dict[str, str], header: str
) -> None:
    path = write(tmp_path, user)
    path.write_text(path.read_text().replace("https://10.0.0.1:6443/", "http://me:pa55%2fword@127.0.0.1:1/"))
    config, hosts = load_kubeconfig(path), set()
    assert await Credentials(config, SystemClock()).headers() == {"Authorization": header}
    client = ApiClient(config, SystemClock(), observe=lambda _, host, *__: hosts.add(host))
    with pytest.raises(Transient, match=r"cannot connect to http://127\.0\.0\.1:1:"):
        await client.get(PODS.at("default", "a"))
    await client.close()
    assert hosts == {"127.0.0.1:1"}


def test_inline_data_wins_over_files(tmp_path: Path) -> None:
    data = base64.b64encode(b"PEM").decode()
    config = load_kubeconfig(write(tmp_path, {"client-certificate": "a", "client-certificate-data": data}))
    assert config.user.certificate.read() == b"PEM"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "not YAML"),
        ("[]", "not a kubeconfig"),
        ("{current-context: x}", "current-context 'x' is not among"),
        ("{current-context: x, contexts: [{name: x, context: {cluster: y}}]}", "cluster 'y'"),
        (SERVER % "me:pa55word@host:6443", "server 'host:6443' must begin with https://"),
        (SERVER % "https://me:pa55word@host:99999", "server 'https://…@host:99999' is not a valid URL"),
        (SERVER % "https://[host", r"server 'https://\[host' is not a valid URL"),
        (SERVER % "https://", "server 'https://' is not a valid URL"),
    ],
)
def test_invalid_kubeconfig_names_the_error(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(Invalid, match=error) as caught:
        load_kubeconfig(path)
    assert "pa55word" not in str(caught.value)
    with pytest.raises(Invalid, match="cannot be read"):
        load_kubeconfig(tmp_path / "missing")


async def test_renewed_certificate_replaces_the_one_in_the_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = ClusterAuthority.make("test")
    loaded: list[bytes] = []
    original = credentials_module._load_chain

    def load_chain(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
        loaded.append(certificate)
        original(context, certificate, key)

    monkeypatch.setattr(credentials_module, "_load_chain", load_chain)

    def pair() -> tuple[bytes, bytes]:
        key = new_key()
        return authority.sign(signing_request(key, client_template("n"))), key

    certificate, key = pair()
    user = User(certificate=Pem(certificate), key=Pem(key))
    clock, file = VirtualClock(), tmp_path / "kubelet-client-current.pem"
    rotated = RotatedCertificate(file, file.exists)
    credentials = Credentials(
        ClusterConfig("https://x", ca=Pem(authority.certificate_pem), user=user), clock, rotated=rotated
    )
    first = await credentials.tls()
    assert loaded == [certificate]
    renewed = b"".join(pair())
    file.write_bytes(renewed)
    await clock.advance(credentials_module.LOOK_AGAIN)
    assert await credentials.tls() is not first and loaded == [certificate, renewed]


async def test_exec_plugin_provides_a_token(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    log = tmp_path / "log"
    plugin.write_text(f"#!/bin/sh\necho \"$KUBERNETES_EXEC_INFO\" >> {log}\necho '{json.dumps(TOKEN)}'\n")
    plugin.chmod(0o755)
    given = {"exec": {"command": "./plugin", "apiVersion": "client.authentication.k8s.io/v1"}}
    config = load_kubeconfig(write(tmp_path, given))
    (tmp_path / "pki").mkdir()
    config = ClusterConfig("http://127.0.0.1:1", user=config.user)
    credentials = Credentials(config, SystemClock())
    assert await credentials.headers() == {"Authorization": "Bearer t0k"}
    assert await credentials.headers() == {"Authorization": "Bearer t0k"}
    assert len(log.read_text().splitlines()) == 1
    assert json.loads(log.read_text())["spec"] == {"interactive": False}
    credentials.renew()
    await credentials.headers()
    assert len(log.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("command", "version", "error", "message"),
    [
        ("/no/such/program", "client.authentication.k8s.io/v1", Invalid, "not installed. Get it"),
        ("false", "client.authentication.k8s.io/v1", Transient, "failed"),
        ("true", "client.authentication.k8s.io/v1", Invalid, "not an ExecCredential"),
        ("true", "client.authentication.k8s.io/v7", Invalid, "unknown apiVersion"),
    ],
)
async def test_failing_exec_plugins_raise(command: str, version: str, error: type[Exception], message: str) -> None:
    plugin = ExecPlugin(command, api_version=version, install_hint="Get it")
    credentials = Credentials(ClusterConfig("http://x", user=User(exec=plugin)), SystemClock())
    with pytest.raises(error, match=message):
        await credentials.headers()


def plugin_of(tmp_path: Path, body: str) -> ExecPlugin:
    program = tmp_path / "plugin"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return ExecPlugin(str(program))


@pytest.mark.parametrize("end", ["exec sleep 1000", "exit 3", f"echo '{json.dumps(TOKEN)}'"])
async def test_exec_plugin_leaves_no_process_behind(tmp_path: Path, end: str) -> None:
    plugin = plugin_of(tmp_path, f"sleep 1000 >/dev/null 2>&1 &\necho $! >{tmp_path}/left\n{end}")
    with suppress(Transient):
        await run_plugin(plugin, ClusterConfig("http://x"), deadline=1.0 if "sleep" in end else 60.0)
    left = int((tmp_path / "left").read_text())
    await until(lambda: not Path(f"/proc/{left}").exists())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("echo secret-word; exit 3", "failed with exit code 3"),
        ("echo secret-word; echo 'not\033[2J logged in' >&2; exit 3", r"exit code 3: not\x1b[2J logged in"),
        ("exec yes secret-word", "printed more than 1 MiB"),
        ("echo secret-word", "its output is not an ExecCredential"),
        (f"echo '{json.dumps(NO_ZONE)}'", "its output is not an ExecCredential: Expected `datetime` with a timezone"),
    ],
)
async def test_failure_of_an_exec_plugin_shows_nothing_of_its_output(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(PykubeletError) as caught:
        await run_plugin(plugin_of(tmp_path, body), ClusterConfig("http://x"))
    assert message in str(caught.value)
    assert "secret-word" not in str(caught.value)


async def test_failing_exec_plugin_is_not_run_for_each_request(tmp_path: Path) -> None:
    plugin = plugin_of(tmp_path, f"echo run >>{tmp_path}/log\nexit 1")
    clock = VirtualClock()
    credentials = Credentials(ClusterConfig("http://x", user=User(exec=plugin)), clock)
    results = await asyncio.gather(*(credentials.headers() for _ in range(5)), return_exceptions=True)
    assert [type(each) for each in results] == [Transient] * 5
    assert (tmp_path / "log").read_text().split() == ["run"]
    await clock.advance(PLUGIN_PAUSE)
    with pytest.raises(Transient):
        await credentials.headers()
    assert (tmp_path / "log").read_text().split() == ["run", "run"]


def test_lines_are_split_at_any_chunk_boundary() -> None:
    lines = Lines()
    found = [line for chunk in (b'{"a"', b":1}\n\n{", b"}\n", b"x") for line in lines.feed(chunk)]
    assert found == [b'{"a":1}', b"{}"]


def test_events_are_read() -> None:
    given = b'{"kind":"Pod","metadata":{"name":"a","uid":"1","resourceVersion":"7"},"spec":null}'
    event = read_event(b'{"type":"ADDED","object":' + given + b"}", Pod)
    assert (event.type, event.meta.resource_version) == (WatchType.ADDED, "7") and event.object is not None
    broken = read_event(b'{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"a"},"spec":5}}', Pod)
    assert broken.object is None and broken.fault and broken.meta.name == "a"
    with pytest.raises(Conflict):
        read_event(b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}', Pod)
    strange = b'{"type":"DELETED","object":{"kind":"Endpoints","metadata":{"name":"a"}}}'
    for bad in (b"{", b'{"type":"WHAT","object":{}}', strange):
        with pytest.raises(Transient):
            read_event(bad, Pod)


def test_resource_paths_name_namespace_object_and_subresource() -> None:
    assert PODS.all().path == "/api/v1/pods"
    assert PODS.at("ns", "a", "status").path == "/api/v1/namespaces/ns/pods/a/status"
    assert PODS.at("ns", "a", "status").label == "pods/status ns/a"


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"ADDED","object":' + b"[" * 200_000,
        b'{"type":"ADD\xff","object":{}}',
        b'{"type":"ADDED","object":{"a":"\\ud800"}}',
        b'{"type":"ERROR","object":' + b"[" * 900 + b"]" * 900 + b"}",
    ],
    ids=["deep", "no-utf8", "half-pair", "deep-error"],
)
def test_read_event_of_a_hostile_line_raises_transient(line: bytes) -> None:
    with pytest.raises(Transient):
        read_event(shallow(line), Pod)


def test_read_list_of_a_hostile_body_raises_transient() -> None:
    for body in (b'{"items":' + b"[" * 200_000, b'{"items":[{"a":"\\ud800"}]}', b"\xff"):
        with pytest.raises(Transient):
            Pages(Pod).read(body)


def test_load_kubeconfig_of_a_deep_file_raises_invalid(tmp_path: Path) -> None:
    path = tmp_path / "kubelet.conf"
    path.write_bytes(b"clusters: " + b"[" * 500_000)
    with pytest.raises(Invalid, match="levels deep"):
        load_kubeconfig(path)
