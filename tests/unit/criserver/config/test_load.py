"""The configuration file."""

import ipaddress
import json
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.criserver.config import CgroupManager, Settings, load_settings
from pykubelet.criserver.config.host_facts import cgroup_of, host_facts, kernel_cgroup
from pykubelet.criserver.server.cri_calls.runtime import described


def test_settings_without_a_file_have_usable_defaults() -> None:
    settings = load_settings(None)
    assert settings.socket == Path("/run/pykubelet/criserver/criserver.sock")
    assert settings.default_handler in settings.handlers


@pytest.mark.parametrize(
    ("settings", "directory"),
    [
        (Settings(), "/run/netns"),
        (Settings(run=Path("/var/run/other")), "/run/netns"),
        (Settings(run=Path("/srv/test")), "/srv/test/netns"),
        (Settings(netns_dir=Path("/run/own/netns")), "/run/own/netns"),
    ],
)
def test_network_namespaces_are_where_the_agents_of_cni_plugins_look(settings: Settings, directory: str) -> None:
    """Multus and Antrea mount /var/run/netns of the node; tests must not leave anything there."""
    assert settings.network_namespaces == Path(directory)


@pytest.mark.parametrize(
    ("program", "used"),
    [
        ("podman", "10.88.0.0/16"),
        ("further networks of podman", "10.89.0.0/16"),
        ("CRI-O", "10.85.0.0/16"),
        ("docker", "172.16.0.0/12"),
        ("flannel and k3s", "10.42.0.0/16"),
        ("the demo", "10.89.77.0/24"),
    ],
)
def test_default_network_has_no_address_of_networks_that_other_programs_make(program: str, used: str) -> None:
    ours = ipaddress.ip_network(Settings().cni.default_subnet)
    assert not ours.overlaps(ipaddress.ip_network(used)), program


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "c.toml",
            'root = "/r"\ncgroup_manager = "systemd"\n[cni]\nbin_dirs = ["/b"]\n[handlers.gvisor]\npath = "runsc"\n',
        ),
        ("c.yaml", "root: /r\ncgroup_manager: systemd\ncni: {bin_dirs: [/b]}\nhandlers: {gvisor: {path: runsc}}\n"),
    ],
)
def test_both_kinds_of_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text + ("default_handler: gvisor\n" if name.endswith("yaml") else ""))
    if name.endswith("toml"):
        (tmp_path / name).write_text('default_handler = "gvisor"\n' + text)
    settings = load_settings(tmp_path / name, run="/other", listen=None)
    assert (settings.root, settings.run) == (Path("/r"), Path("/other"))
    assert settings.cgroup_manager is CgroupManager.SYSTEMD
    assert settings.cni.bin_dirs == (Path("/b"),)
    assert settings.handlers["gvisor"].path == "runsc"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("roots: /r", "roots"),
        ("root: 5", "root"),
        ("root: relative", "absolute"),
        ("default_handler: kata", "kata"),
        ("handlers: {runc: {path: runc}, /usr/bin/crun: {path: crun}}", "handlers: '/usr/bin/crun' is not a name"),
        ("handlers: {runc: {path: runc}, ..: {path: crun}}", r"handlers: '\.\.' is not a name"),
        ("handlers: {runc: {path: runc}, '': {path: crun}}", "handlers: '' is not a name"),
        ("[1, 2]", "one table"),
        ("{", "not YAML"),
        ("cni: {timeout: soon}", r"cni\.timeout"),
    ],
)
def test_invalid_field_is_named_in_the_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(Invalid, match=message):
        load_settings(tmp_path / "c.yaml")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.yaml", "run: /r\nrooot: /x\n", "2:1: rooot: unknown field (did you mean root?)"),
        ("c.yaml", "cni:\n  tiemout: 1\n", "2:3: cni.tiemout: unknown field (did you mean timeout?)"),
        ("c.yaml", "handlers:\n  a: {pat: x}\n", "2:7: handlers[...].pat: unknown field (did you mean path?)"),
        ("c.yaml", "registries:\n  a: {mirrors: [1]}\n", "2:17: registries[...].mirrors[0]: expected `str`, got `int`"),
        ("c.yaml", "zzz: 1\n", "1:1: zzz: unknown field"),
        ("c.toml", 'run = "/r"\nrooot = "/x"\n', "2:1: rooot: unknown field (did you mean root?)"),
        ("c.toml", '[cni]\n  "tiemout" = 1\n', "2:3: cni.tiemout: unknown field (did you mean timeout?)"),
        ("c.toml", '[registries."a.b"]\nmirrors = [1]\n', "2:1: registries[...].mirrors[0]: expected `str`, got `int`"),
        ("c.toml", "[handlers.a]\npath = 1\n[handlers.b]\npath = 1\n", "c.toml: handlers[...].path: expected `str`"),
    ],
)
def test_wrong_field_is_named_with_line_and_suggestion(tmp_path: Path, name: str, text: str, message: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(Invalid) as caught:
        load_settings(file, run="/other")
    assert str(caught.value).startswith(str(file))
    assert message in str(caught.value)


def test_missing_configuration_file_is_refused() -> None:
    with pytest.raises(Invalid, match="cannot be read"):
        load_settings(Path("/no/such/file.toml"))


@pytest.mark.parametrize(
    ("parent", "systemd", "expected"),
    [
        ("/kubepods/pod1", False, "/kubepods/pod1/c1"),
        ("", False, "/pykubelet/c1"),
        ("kubepods-pod1.slice", True, "kubepods-pod1.slice:cri-pykubelet:c1"),
        ("/kubepods.slice/kubepods-pod1.slice", True, "kubepods-pod1.slice:cri-pykubelet:c1"),
        ("", True, "system.slice:cri-pykubelet:c1"),
    ],
)
def test_cgroup_path_has_the_form_of_the_cgroup_manager(parent: str, systemd: bool, expected: str) -> None:
    assert cgroup_of(parent, "c1", systemd) == expected


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("/kubepods/pod1/c1", "/kubepods/pod1/c1"),
        ("a-b.slice:cri-pykubelet:c1", "/a.slice/a-b.slice/cri-pykubelet-c1.scope"),
        ("a-b.slice", "/a.slice/a-b.slice"),
        ("/a.slice/a-b.slice", "/a.slice/a-b.slice"),
        ("", ""),
    ],
)
def test_kernel_cgroup_follows_the_systemd_name(name: str, path: str) -> None:
    assert kernel_cgroup(name) == path


def test_facts_of_this_machine() -> None:
    host = host_facts()
    assert host.cgroup_version in (0, 1, 2)
    assert -1000 <= host.least_oom_score <= 1000


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("pod_annotations = ['[']", "handlers.x: annotation pattern .* malformed"),
        ("privileged_without_host_devices_all_devices_allowed = true", "handlers.x: .* needs"),
        ("cni_max_conf_num = 2", "handlers.x: cni_max_conf_num needs cni_conf_dir"),
        ("cni_conf_dir = '/n'\ncni_max_conf_num = -1", "handlers.x: cni_max_conf_num: must be from 0 to 16, not -1"),
        ("[cni]\nmax_conf_num = 17", "c.toml: cni.max_conf_num: must be from 0 to 16, not 17"),
    ],
)
def test_invalid_handlers_are_rejected_with_their_name(tmp_path: Path, field: str, message: str) -> None:
    (tmp_path / "c.toml").write_text(f"default_handler = 'x'\n[handlers.x]\npath = 'runc'\n{field}\n")
    with pytest.raises(Invalid, match=message):
        load_settings(tmp_path / "c.toml")


@pytest.mark.parametrize("rate", [-1, 1000])
def test_bandwidth_of_pulls_that_is_too_small_is_rejected(tmp_path: Path, rate: int) -> None:
    (tmp_path / "c.toml").write_text(f"pull_bandwidth = {rate}\n")
    with pytest.raises(Invalid, match=rf"c\.toml: pull_bandwidth: .* at least 65536 bytes per second, not {rate}"):
        load_settings(tmp_path / "c.toml")


def test_metrics_address_of_other_machines_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("metrics_address = '0.0.0.0:94'\n")
    with pytest.raises(Invalid, match=r"c\.toml: metrics_address"):
        load_settings(tmp_path / "c.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("endpoint = 'a'", r"tracing\.endpoint: 'a' must be HOST:PORT"),
        ("sampling_ratio = 1.1", "sampling_ratio: must be"),
    ],
)
def test_wrong_settings_of_traces_are_rejected(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "c.toml").write_text(f"[tracing]\n{text}\n")
    with pytest.raises(Invalid, match=rf"c\.toml: .*{words}"):
        load_settings(tmp_path / "c.toml")


def test_file_replaces_the_collector_that_the_agent_names(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[tracing]\nendpoint = 'own:1'\nsampling_ratio = 0.25\n")
    named: dict[str, object] = {"tracing": {"endpoint": "agents:1"}}
    assert load_settings(tmp_path / "c.toml", defaults=named).tracing.per_million == 250_000
    assert load_settings(tmp_path / "c.toml", defaults=named).tracing.endpoint == "own:1"
    assert load_settings(None, defaults=named).tracing.endpoint == "agents:1"


def test_description_has_all_settings_and_no_secrets(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        """[registries."r.example"]
mirrors = ["https://me:secret@mirror.example"]
username = "me"
password = "secret"
[handlers.runc]
path = "runc"
base_runtime_spec = "/base.json"
"""
    )
    settings = load_settings(tmp_path / "c.toml")
    found = described(settings)
    assert "secret" not in str(found) and set(found) == set(settings.__struct_fields__)
    registry = {"mirrors": ["https://(set)@mirror.example"], "username": "(set)", "password": "(set)"}
    assert found["registries"]["r.example"].items() >= registry.items()  # type: ignore[index]
    assert found["handlers"]["runc"]["base_runtime_spec"] == "/base.json"  # type: ignore[index]
    assert json.dumps(found)


@pytest.mark.parametrize(
    "text",
    [
        r'registries_file = "/a\u0000b"',
        r"[handlers.runc]" + "\n" + r'base_runtime_spec = "/a\u0000"',
        r'registry_dirs = ["/a", "/b\u0000"]',
        r'"a\u0000" = 1',
    ],
)
def test_text_with_nul_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.toml").write_text(text + "\n")
    with pytest.raises(Invalid, match=r"c\.toml: .*contains NUL"):
        load_settings(tmp_path / "c.toml")
