"""CredentialProviderConfig: files, directories, and errors that name the file, the field and the remedy."""

import hashlib
import os
from pathlib import Path
from typing import Final

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.config.credential_providers import ExecEnvVar, load_credential_providers

V1: Final = "credentialprovider.kubelet.k8s.io/v1"
GOOD: Final = f"""\
- name: ecr
  matchImages: ["*.dkr.ecr.*.amazonaws.com", "registry.io:8080/path"]
  defaultCacheDuration: 12h
  apiVersion: {V1}
"""
TOKENS: Final = """\
  tokenAttributes:
    serviceAccountTokenAudience: registry
    cacheType: Token
    requireServiceAccount: true
"""


def head(version: str = "v1") -> str:
    return f"apiVersion: kubelet.config.k8s.io/{version}\nkind: CredentialProviderConfig\nproviders:\n"


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("ecr", "gcr"):
        (directory / name).write_text("#!/bin/sh\n")
        (directory / name).chmod(0o755)
    (directory / "text").write_text("")
    return directory


def load(tmp_path: Path, plugins: Path, body: str, version: str = "v1") -> str:
    """Return the error of a file with these providers; empty if it is valid."""
    file = tmp_path / "providers.yaml"
    file.write_text(head(version) + body)
    try:
        load_credential_providers(str(file), str(plugins))
    except Invalid as error:
        return str(error).replace(f"{tmp_path}/", "")
    return ""


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_file_of_each_version_is_read(tmp_path: Path, plugins: Path, version: str) -> None:
    file = tmp_path / "providers.yaml"
    file.write_text(head(version) + GOOD + "  args: [get, --fast]\n  env: [{name: A, value: b}]\n")
    found = load_credential_providers(str(file), str(plugins))
    assert found is not None
    (provider,) = found.providers
    assert (provider.name, provider.default_cache_duration, provider.api_version) == ("ecr", "12h", V1)
    assert (provider.args, provider.env) == (("get", "--fast"), (ExecEnvVar(name="A", value="b"),))
    assert provider.token_attributes is None


def test_files_of_a_directory_are_merged_in_order_of_their_names(tmp_path: Path, plugins: Path) -> None:
    directory = tmp_path / "conf"
    (directory / "ignored.yaml").mkdir(parents=True)
    texts = {"10.yml": head() + GOOD.replace("ecr", "gcr", 1), "20.json": head() + GOOD, "note.txt": "nonsense"}
    for name, text in texts.items():
        (directory / name).write_text(text)
    found = load_credential_providers(str(directory), str(plugins))
    assert found is not None
    assert [each.name for each in found.providers] == ["gcr", "ecr"]
    parts = [texts[name].encode() for name in ("10.yml", "20.json")]
    digest = hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).hexdigest()
    assert found.config_hash == f"sha256:{digest}"


def test_without_flags_there_are_no_plugins() -> None:
    assert load_credential_providers("", "") is None


def test_token_attributes_are_valid_in_the_newest_version(tmp_path: Path, plugins: Path) -> None:
    assert load(tmp_path, plugins, GOOD + TOKENS) == ""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("  []\n", "providers.yaml:3:1: providers: at least 1 item in plugins is required"),
        (GOOD + GOOD, "providers.yaml:8:3: providers[1].name: duplicate provider name 'ecr' found"),
        (GOOD.replace("ecr", "../ecr", 1), "providers.yaml:4:3: providers[0].name: '../ecr' must be the name of"),
        (GOOD.replace("ecr", "none", 1), "providers[0].name: bin/none is not an executable file; install the plugin"),
        (GOOD.replace("ecr", "text", 1), "providers[0].name: bin/text is not an executable file"),
        (
            GOOD.replace("12h", "soon"),
            "providers.yaml:6:3: providers[0].defaultCacheDuration: 'soon' is not a duration",
        ),
        (GOOD.replace("12h", "-1s"), "providers[0].defaultCacheDuration: must be greater than or equal to 0"),
        (GOOD.replace("  defaultCacheDuration: 12h\n", ""), "providers[0].defaultCacheDuration: required"),
        (GOOD.replace("matchImages", "matchImage"), "unknown field (did you mean matchImages?)"),
        (GOOD.replace('["*.dkr.ecr.*.amazonaws.com", "registry.io:8080/path"]', "[]"), "matchImages: at least 1 item"),
        (
            GOOD.replace(":8080", ":port"),
            "providers[0].matchImages[1]: match image is invalid: 'registry.io:port",
        ),
        (GOOD.replace("registry.io:8080", "a b"), "matchImages[1]: match image is invalid: 'a b/path'"),
        (GOOD.replace(V1, "v1"), "providers[0].apiVersion: 'v1' is not supported; use one of credentialprovider"),
        (GOOD.replace("12h", "{}"), "providers.yaml:6:3: providers[0].defaultCacheDuration: expected `str | null`"),
        (GOOD + "  tokenAttributes: {}\n", "tokenAttributes.serviceAccountTokenAudience: required"),
        (GOOD + "  tokenAttributes: {}\n", "tokenAttributes.requireServiceAccount: required"),
        (GOOD + "  tokenAttributes: {}\n", "tokenAttributes.cacheType: '' is not supported; use one of"),
        (GOOD + "  tokenAttributes: {audience: a}\n", "providers[0].tokenAttributes.audience: unknown field"),
        (GOOD.replace(V1, V1 + "beta1") + TOKENS, f"tokenAttributes: is only supported for {V1} API version"),
        (
            GOOD + TOKENS.replace("true", "false") + "    requiredServiceAccountAnnotationKeys: [a.io/b]\n",
            "requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set",
        ),
        (
            GOOD + TOKENS + "    requiredServiceAccountAnnotationKeys: [a, a, 'b c']\n",
            "requiredServiceAccountAnnotationKeys[1]: 'a' is there already",
        ),
        (
            GOOD + TOKENS + "    requiredServiceAccountAnnotationKeys: [a, 'b c']\n",
            "requiredServiceAccountAnnotationKeys[1]: 'b c' is not an annotation key; write",
        ),
        (
            GOOD
            + TOKENS
            + "    requiredServiceAccountAnnotationKeys: [a]\n    optionalServiceAccountAnnotationKeys: [a]\n",
            "tokenAttributes: annotation keys cannot be both required and optional: a",
        ),
    ],
)
def test_error_names_place_field_and_remedy(tmp_path: Path, plugins: Path, body: str, message: str) -> None:
    assert message in load(tmp_path, plugins, body)


def test_token_attributes_need_the_newest_version_of_the_file(tmp_path: Path, plugins: Path) -> None:
    error = load(tmp_path, plugins, GOOD + TOKENS, "v1beta1")
    assert "tokenAttributes: unknown field in kubelet.config.k8s.io/v1beta1; use apiVersion" in error


def test_unreadable_and_foreign_files_are_named(tmp_path: Path, plugins: Path) -> None:
    file, empty = tmp_path / "p.yaml", tmp_path / "empty"
    empty.mkdir()
    cases = {
        "kind: Pod\n": "p.yaml: kind is 'Pod', must be CredentialProviderConfig",
        "kind: CredentialProviderConfig\napiVersion: v1\n": "p.yaml: apiVersion is 'v1', must be one of kubelet.config",
        "{": "p.yaml: not YAML or JSON",
        "[]": "p.yaml: must be one object",
    }
    for text, message in cases.items():
        file.write_text(text)
        with pytest.raises(Invalid, match=message):
            load_credential_providers(str(file), str(plugins))
    os.mkfifo(tmp_path / "fifo.yaml")
    for config, directory, message in (
        (str(tmp_path / "fifo.yaml"), str(plugins), "fifo.yaml: cannot be read: not a regular file"),
        (str(tmp_path / "none.yaml"), str(plugins), "none.yaml: cannot be read: No such file"),
        (str(empty), str(plugins), "empty: no configuration files found in directory; add"),
        (str(file), str(tmp_path / "none"), "bin-dir: plugin binary directory .*none did not exist"),
        (str(file), "", "image-credential-provider-bin-dir: must be set together"),
        ("", str(plugins), "image-credential-provider-config: must be set together"),
    ):
        with pytest.raises(Invalid, match=message):
            load_credential_providers(config, directory)
