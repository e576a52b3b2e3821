"""Exec plugins: what they are told about the cluster, and answers that are refused."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from pykubelet.apiclient import ClusterConfig
from pykubelet.apiclient.exec_plugin import run_plugin
from pykubelet.apiclient.kubeconfig import ExecPlugin, Pem
from pykubelet.base.errors import Invalid

_VERSION = "client.authentication.k8s.io/v1"


def _plugin(tmp_path: Path, answer: object, **fields: Any) -> ExecPlugin:
    program = tmp_path / "plugin"
    reported = 'printf %s "$KUBERNETES_EXEC_INFO" >"$0.info"'
    program.write_text(f"#!/bin/sh\n{reported}\ncat <<'END'\n{json.dumps(answer)}\nEND\n")
    program.chmod(0o755)
    return ExecPlugin(str(program), **fields)


def _answer(**status: object) -> dict[str, object]:
    return {"kind": "ExecCredential", "apiVersion": _VERSION, "status": status}


@pytest.mark.parametrize(
    ("config", "cluster"),
    [
        (ClusterConfig("https://a:6443"), {"server": "https://a:6443", "insecure-skip-tls-verify": False}),
        (
            ClusterConfig("https://a", ca=Pem(b"authority"), insecure=True, tls_server_name="b"),
            {
                "server": "https://a",
                "insecure-skip-tls-verify": True,
                "certificate-authority-data": base64.b64encode(b"authority").decode(),
                "tls-server-name": "b",
            },
        ),
    ],
)
async def test_plugin_that_wants_it_gets_the_cluster(
    tmp_path: Path, config: ClusterConfig, cluster: dict[str, object]
) -> None:
    assert (await run_plugin(_plugin(tmp_path, _answer(token="t")), config)).token == "t"
    assert json.loads((tmp_path / "plugin.info").read_text())["spec"] == {"interactive": False}
    await run_plugin(_plugin(tmp_path, _answer(token="t"), provide_cluster_info=True), config)
    assert json.loads((tmp_path / "plugin.info").read_text())["spec"]["cluster"] == cluster


async def test_authority_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    config = ClusterConfig("https://a", ca=Pem(file=str(tmp_path / "absent.pem")))
    with pytest.raises(Invalid, match=r"absent\.pem: cannot be read"):
        await run_plugin(_plugin(tmp_path, _answer(token="t"), provide_cluster_info=True), config)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"kind": "Pod", "apiVersion": _VERSION, "status": {"token": "t"}}, f"printed a {_VERSION} Pod, not a"),
        ({"kind": "ExecCredential", "apiVersion": "v1", "status": {"token": "t"}}, "printed a v1 ExecCredential"),
        ({"kind": "ExecCredential", "apiVersion": _VERSION}, "neither a token nor a certificate"),
        (_answer(), "neither a token nor a certificate"),
        (_answer(token="t", clientCertificateData="c"), "a certificate without a key, or a key without"),
        (_answer(token="t", clientKeyData="k"), "a certificate without a key, or a key without"),
    ],
)
async def test_answer_that_is_no_credential_is_refused(tmp_path: Path, answer: object, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        await run_plugin(_plugin(tmp_path, answer), ClusterConfig("http://x"))


async def test_certificate_and_key_are_returned(tmp_path: Path) -> None:
    answer = _answer(clientCertificateData="c", clientKeyData="k", expirationTimestamp="1970-01-01T00:01:00Z")
    found = await run_plugin(_plugin(tmp_path, answer), ClusterConfig("http://x"))
    assert (found.token, found.certificate, found.key, found.expires) == ("", b"c", b"k", 60.0)


@pytest.mark.parametrize(("hint", "end"), [("Get it", "is not installed. Get it"), ("", "is not installed")])
async def test_plugin_that_is_missing_is_named_with_its_hint(hint: str, end: str) -> None:
    with pytest.raises(Invalid) as caught:
        await run_plugin(ExecPlugin("/no/such/program", install_hint=hint), ClusterConfig("http://x"))
    assert str(caught.value).endswith(end)
