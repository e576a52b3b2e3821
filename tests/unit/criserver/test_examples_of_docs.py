"""The examples of configuration in the documentation are accepted, and mean what the pages say."""

import tomllib
from pathlib import Path

import msgspec
import pytest

from pykubelet.base.files.documents import read_yaml
from pykubelet.criserver.compose.image_policy import ConfiguredPolicy
from pykubelet.criserver.config import RegistryTable, load_settings
from pykubelet.criserver.config.settings import HandlerType
from pykubelet.criserver.images.registry.hosts_file import parse_hosts
from pykubelet.criserver.images.signatures import Action
from pykubelet.criserver.spec.resource_classes import BlockioFile
from pykubelet.testing.signing import new_signer

_DOCS = Path(__file__).resolve().parents[3] / "docs"


def _blocks(page: str, language: str) -> list[str]:
    """The examples of a page in a language."""
    return [part.split("```")[0] for part in (_DOCS / page).read_text().split(f"```{language}\n")[1:]]


@pytest.mark.parametrize("text", _blocks("runtimes.md", "toml"))
def test_configuration_of_handlers_is_valid(tmp_path: Path, text: str) -> None:
    # Examples show handlers only; the default one must be among them.
    if "[handlers.runc]" not in text:
        text += '\n[handlers.runc]\npath = "runc"\n'
    (tmp_path / "c.toml").write_text(text)
    settings = load_settings(tmp_path / "c.toml")
    assert settings.handlers.keys() > {"runc"}
    assert all(
        (handler.type is HandlerType.SHIM) is ("io.containerd" in handler.path)
        for handler in settings.handlers.values()
    )


def test_two_networks_are_those_of_their_handler(tmp_path: Path) -> None:
    (text,) = [each for each in _blocks("runtimes.md", "toml") if "max_conf_num" in each]
    (tmp_path / "c.toml").write_text(f'{text}\n[handlers.runc]\npath = "runc"\n')
    settings = load_settings(tmp_path / "c.toml")
    assert (settings.cni.max_conf_num, settings.handlers["two-networks"].cni_max_conf_num) == (1, 2)


def test_classes_of_block_io_are_valid() -> None:
    (text,) = [each for each in _blocks("runtimes.md", "yaml") if "Classes:" in each]
    assert set(msgspec.convert(read_yaml(text.encode()), BlockioFile).classes) == {"slow"}


def test_registries_file_is_valid(tmp_path: Path) -> None:
    (text,) = [each for each in _blocks("images.md", "toml") if "[registries" in each]
    (tmp_path / "registries.toml").write_text(text)
    hosts = RegistryTable(tmp_path / "registries.toml", {}).hosts()
    assert hosts["docker.io"].mirrors == ("https://mirror.example.com", "http://10.0.0.5:5000/hub")
    assert hosts["10.0.0.5:5000"].plain_http and hosts["10.0.0.5:5000"].username == "puller"
    assert hosts["lab.example.com"].skip_verify and hosts["mirror.example.com"].client_key.endswith("me.key")


def test_hosts_files_are_valid(tmp_path: Path) -> None:
    whole, harbor = (each for each in _blocks("images.md", "toml") if "[host." in each)
    first, last = parse_hosts(tomllib.loads(whole), "docker.io", str(tmp_path))
    assert (first.base, first.api, last.base) == (
        "https://mirror.example.com/v2/proxy",
        "",
        "https://registry-1.docker.io",
    )
    assert first.headers == (("X-Team", "blue"),) and first.tls.further_ca == (str(tmp_path / "mirror.crt"),)
    proxy, hub = parse_hosts(tomllib.loads(harbor), "docker.io", str(tmp_path))
    assert (proxy.base + proxy.api, hub.base + hub.api) == (
        "https://harbor.example/v2/hub",
        "https://registry-1.docker.io/v2",
    )


def test_image_policy_is_valid(tmp_path: Path) -> None:
    (text,) = [each for each in _blocks("images.md", "toml") if "signed_as" in each]
    for name in ("team.pub", "release.pub", "vendor.pub"):
        (tmp_path / name).write_bytes(new_signer().pem)
    (tmp_path / "image-policy.toml").write_text(text.replace("/etc/keys", str(tmp_path)))
    policy = ConfiguredPolicy(tmp_path / "image-policy.toml")
    assert policy.rule_for("docker.io/library/busybox").action is Action.ALLOW
    assert policy.rule_for("docker.io/other/app").action is Action.DENY
    assert len(policy.rule_for("registry.example:5000/team/app").keys) == 2
    assert policy.rule_for("mirror.example/vendor/app").identity("mirror.example/vendor/app") == "vendor.example/app"
