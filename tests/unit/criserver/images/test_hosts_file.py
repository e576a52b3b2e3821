"""The hosts.toml and certs.d of containerd: which servers are asked, and how."""

import ssl
import tomllib
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, Permanent
from pykubelet.base.http.tls_clients import system_context
from pykubelet.criserver.images.reference import parse
from pykubelet.criserver.images.registry import HostConfig, HostDirectories, host_directories
from pykubelet.criserver.images.registry.config import Endpoint, Tls
from pykubelet.criserver.images.registry.host_directories import find_endpoints
from pykubelet.criserver.images.registry.hosts_file import parse_hosts
from pykubelet.criserver.images.registry.http import load_server_tls
from pykubelet.testing.certificates import Authority
from tests.unit.criserver.images.fakeregistry import FakeRegistry
from tests.unit.criserver.images.world import DIFFS, LAYERS, World, check

BOB = "Basic Ym9iOm1pcnJvcg=="
D = "/etc/certs.d/r"


def parsed(text: str, host: str = "r.example") -> tuple[Endpoint, ...]:
    return parse_hosts(tomllib.loads(text), host, D)


def test_servers_keep_their_order_and_the_root_is_the_last() -> None:
    found = parsed(
        """
        server = "https://upstream.example"
        capabilities = ["pull"]
        [host."http://z.example:5000/proxy"]
        capabilities = ["pull", "resolve"]
        [host."a.example"]
        capabilities = ["Resolve", "push"]
        skip_verify = true
        """
    )
    assert [(one.base, one.api, one.namespace, one.resolves, one.pulls, one.proven) for one in found] == [
        ("http://z.example:5000/proxy", "/v2", "r.example", True, True, False),
        ("https://a.example", "/v2", "r.example", True, False, False),
        ("https://upstream.example", "/v2", "r.example", False, True, True),
    ]
    assert [one.host for one in found] == ["z.example:5000", "a.example", "upstream.example"]


@pytest.mark.parametrize(
    ("url", "override", "base", "api"),
    [
        ("https://m/", False, "https://m", "/v2"),
        ("https://m/v2/", False, "https://m/v2", ""),
        ("https://m/v2/proxy", False, "https://m/v2/proxy", "/v2"),
        ("https://m/v2/proxy", True, "https://m/v2/proxy", ""),
        ("https://m/a//b/../c", False, "https://m/a/c", "/v2"),
        ("https://m", True, "https://m", ""),
        ("https://docker.io", False, "https://registry-1.docker.io", "/v2"),
    ],
)
def test_api_path_of_a_host_may_be_overridden(url: str, override: bool, base: str, api: str) -> None:
    found = parsed(f'[host."{url}"]\noverride_path = {str(override).lower()}')[0]
    assert (found.base, found.api) == (base, api)


@pytest.mark.parametrize(
    ("host", "text", "base"),
    [
        ("docker.io", "", "https://registry-1.docker.io"),
        ("r.example", "", "https://r.example"),
        ("localhost:5000", "", "http://localhost:5000"),
        ("localhost:5000", 'ca = "a.crt"', "https://localhost:5000"),
    ],
)
def test_without_a_server_the_registry_itself_is_the_last(host: str, text: str, base: str) -> None:
    (found,) = parsed(text, host)
    assert (found.base, found.host, found.namespace) == (base, host, "")


def test_certificates_headers_and_time_limit() -> None:
    found = parsed(
        """
        ca = ["a.crt", "/b.crt"]
        client = [["c.cert", "c.key"]]
        dial_timeout = "1m30s"
        [host."https://one"]
        ca = "a.crt"
        client = "/c.pem"
        unknown = "fields of later versions"
        [host."https://one".header]
        X-One = "1"
        X_Two = ["2", "3"]
        authorization = "Basic c2VjcmV0"
        """
    )
    assert found[1].tls == Tls(
        further_ca=(f"{D}/a.crt", "/b.crt"), client_certificate=f"{D}/c.cert", client_key=f"{D}/c.key"
    )
    assert found[0].tls == Tls(further_ca=(f"{D}/a.crt",), client_certificate="/c.pem")
    assert (found[0].headers, found[1].headers) == ((("X-One", "1"), ("X_Two", "2, 3")), ())
    assert (found[0].connect, found[1].connect) == (30.0, 90.0)
    assert found[0].authorization == "Basic c2VjcmV0"
    assert "X-One" not in repr(found[0]) and "c2VjcmV0" not in repr(found[0])


def test_the_registry_itself_may_be_asked_though_capabilities_without_a_server_say_otherwise() -> None:
    """As with containerd, which takes the root's fields for those of its server."""
    (found,) = parsed('capabilities = ["pull"]')
    assert found.resolves and found.pulls


def test_the_usual_port_may_be_named() -> None:
    (found,) = parsed('server = "https://r.example:443"')
    assert (found.host, found.namespace) == ("r.example", "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("host = 1", "host must be a table"),
        ("[host]\na = 1", "host.'a' must be a table"),
        ("server = 1", "server must be a URL"),
        ('server = "ftp://x"', "must be http"),
        ('server = "https://user@x"', "must be http"),
        ('server = "https://x:99999"', "must be http"),
        ('[host."https://x?y"]', "must be http"),
        ('capabilities = ["fly"]', "capabilities must be among"),
        ("capabilities = 1", "capabilities must be a text"),
        ("ca = 1", "ca must be a text"),
        ("ca = [1]", "ca must be a text"),
        ('client = [["a", "b", "c"]]', "client must be a file, or a pair"),
        ('client = [["a"]]', "client must be a file, or a pair"),
        ('client = ["a", "b"]', "only one client certificate"),
        ('[header]\n"a b" = "c"', "not a valid header"),
        ('[header]\nA = "a\\r\\nb"', "not a valid header"),
        ('[header]\nAccept-Encoding = "gzip"', "set by the client itself"),
        ('server = "https://:pw@x"', "'x' must be http"),
        ('dial_timeout = "-5s"', "must not be negative"),
        ("dial_timeout = 5", "must be a text"),
        ("header = 1", "header must be a table"),
        ('dial_timeout = "soon"', "dial_timeout: 'soon' is not a duration"),
    ],
)
def test_mistakes_name_the_file_and_the_field(text: str, words: str) -> None:
    with pytest.raises(Invalid, match=f"hosts.toml.*{words}"):
        parsed(text)


@pytest.mark.parametrize(
    "text",
    [
        '[host."https://me:pa55word@mirror"]',
        '[host."me:pa55word@mirror"]',
        '[host]\n"https://me:pa55word@mirror" = 1',
        '[host."https://me:pa55word@mirror"]\nca = 1',
    ],
)
def test_mistakes_do_not_name_the_password_of_a_server(text: str) -> None:
    """The error is an event of each pod with an image of this registry."""
    with pytest.raises(Invalid, match=r"hosts\.toml: host\.'mirror'") as caught:
        parsed(text)
    assert "pa55word" not in str(caught.value)


def write(directory: Path, text: str) -> Path:
    directory.mkdir(parents=True)
    (directory / "hosts.toml").write_text(text)
    return directory


def test_the_best_directory_is_read(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write(second / "r.example", 'server = "https://second"')
    write(first / "r.example:5000", 'server = "https://colon"')
    write(first / "_default", 'server = "https://default"')

    def base(host: str) -> str:
        return find_endpoints((tmp_path / "none", first, second), host)[-1].base

    assert base("r.example:5000") == "https://colon"
    write(first / "r.example_5000_", 'server = "https://underscores"')
    assert base("r.example:5000") == "https://underscores"
    assert base("r.example") == "https://default", "a first directory with a default decides"
    assert find_endpoints((second,), "other") == ()
    (first / "_default" / "hosts.toml").write_text("server = ")
    with pytest.raises(Invalid, match=r"_default/hosts\.toml: not TOML"):
        base("other")


def test_certificates_without_a_hosts_file_are_those_of_the_registry(tmp_path: Path) -> None:
    directory = tmp_path / "localhost:5000"
    directory.mkdir()
    for name in ("b.crt", "a.crt", "me.cert", "me.key", "README"):
        (directory / name).touch()
    (found,) = find_endpoints((tmp_path,), "localhost:5000")
    assert found.base == "https://localhost:5000"
    assert found.tls == Tls(
        further_ca=(f"{directory}/a.crt", f"{directory}/b.crt"),
        client_certificate=f"{directory}/me.cert",
        client_key=f"{directory}/me.key",
    )


async def test_images_come_from_a_mirror_behind_a_path(
    registry: FakeRegistry, other: FakeRegistry, tmp_path: Path
) -> None:
    image = ([LAYERS[0]], [DIFFS[0]])
    other.add_image("team/app:1", *image)
    mirror = f'host."http://{other.host}/hub/proxy"'
    text = f'[{mirror}]\noverride_path = true\n[{mirror}.header]\nX-Team = "blue"'
    write(tmp_path / "certs.d" / registry.host, text)
    world = World(tmp_path / "1", directories=[tmp_path / "certs.d"])
    check(world, await world.images.pull(f"{registry.host}/team/app:1"))
    assert registry.seen == []
    assert all(path.startswith("/hub/proxy/team/app/") and f"ns={registry.host}" in path for path, _, _ in other.seen)
    assert other.teams == {"blue"}
    # The other settings of this registry precede the directories.
    registry.add_image("team/app:1", *image)
    world = World(tmp_path / "2", {registry.host: HostConfig(plain_http=True)}, [tmp_path / "certs.d"])
    check(world, await world.images.pull(f"{registry.host}/team/app:1"))
    assert registry.seen and registry.teams == {""}


async def test_the_header_authorization_is_the_first_and_for_its_server_only(
    registry: FakeRegistry, other: FakeRegistry, tmp_path: Path
) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    other.manifests, other.basic = dict(registry.manifests), "bob:mirror"
    text = f'[host."http://{other.host}"]\n[host."http://{other.host}".header]\nauthorization = "{BOB}"'
    write(tmp_path / "certs.d" / registry.host, text)
    world = World(tmp_path / "1", directories=[tmp_path / "certs.d"])
    check(world, await world.images.pull(f"{registry.host}/app:1"))
    assert {authorization for _, authorization, _ in other.seen} == {BOB}
    assert {authorization for _, authorization, _ in registry.seen} == {""}, "only the blobs are from there"


def test_tls_settings_are_those_of_one_server_although_another_has_the_same_host(tmp_path: Path) -> None:
    skipping = load_server_tls("https://h.example/proxy", Tls(skip_verify=True))
    verified = load_server_tls("https://h.example", Tls())
    context = skipping.context("https://h.example:5000/token")
    assert isinstance(context, ssl.SSLContext) and context.verify_mode is ssl.CERT_NONE
    assert skipping.context("https://elsewhere.example/token") is system_context()
    assert verified.context("https://h.example/v2/") is system_context()
    authority, before = Authority(tmp_path), len(ssl.create_default_context().get_ca_certs())
    own = load_server_tls("https://h.example", Tls(further_ca=(str(authority.ca),), skip_verify=True))
    other = own.context("https://storage.example/blob")
    assert isinstance(other, ssl.SSLContext) and other.verify_mode is ssl.CERT_REQUIRED
    assert len(other.get_ca_certs()) == before + 1


async def test_a_mirror_that_only_pulls_is_not_asked_for_tags(
    registry: FakeRegistry, other: FakeRegistry, tmp_path: Path
) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    other.manifests, other.blobs = dict(registry.manifests), dict(registry.blobs)
    write(tmp_path / "certs.d" / registry.host, f'[host."http://{other.host}"]\ncapabilities = ["pull"]')
    world = World(tmp_path / "1", directories=[tmp_path / "certs.d"])
    check(world, await world.images.pull(f"{registry.host}/app:1"))
    assert not any(path.startswith("/v2/app/manifests/1") for path, _, _ in other.seen)
    assert not any("/blobs/" in path for path, _, _ in registry.seen)
    write(tmp_path / "none" / registry.host, f'server = "http://{registry.host}"\ncapabilities = ["push"]')
    with pytest.raises(Permanent, match=r"no server of its registry may be asked for 1 \(see hosts\.toml\)"):
        await World(tmp_path / "2", directories=[tmp_path / "none"]).images.pull(f"{registry.host}/app:1")


async def test_only_servers_with_the_capability_or_pull_are_asked_for_referrers(
    registry: FakeRegistry, other: FakeRegistry, tmp_path: Path
) -> None:
    found = parsed(
        """
        server = "https://upstream.example"
        capabilities = ["resolve"]
        [host."https://a.example"]
        capabilities = ["pull"]
        [host."https://b.example"]
        capabilities = ["referrers"]
        """
    )
    assert [(one.host, one.refers, one.pulls) for one in found] == [
        ("a.example", True, True),
        ("b.example", True, False),
        ("upstream.example", False, False),
    ]
    registry.referrers["app:sha256:1"] = b"of the registry"
    other.referrers["app:sha256:1"] = b"of the mirror"
    for capability, answer in (("referrers", b"of the mirror"), ("resolve", b"of the registry")):
        directory = tmp_path / capability / registry.host
        write(directory, f'[host."http://{other.host}"]\ncapabilities = ["{capability}"]')
        world = World(tmp_path / f"of-{capability}", directories=[directory.parent])
        async with world.registry.open(parse(f"{registry.host}/app:1"), None) as repository:
            assert (await repository.referrers("sha256:1"))[0] == answer


def test_invalid_directory_leaves_the_former_servers_in_force(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "r.example_5000_" / "hosts.toml"
    file.parent.mkdir()
    directories = HostDirectories([tmp_path])
    file.write_text("[")
    with pytest.raises(Invalid, match="not TOML"):
        directories.find("r.example:5000")
    file.write_text('server = "https://one.example"')
    (former,) = directories.find("r.example:5000")
    file.write_text("[[")
    for _ in range(2):
        assert directories.find("r.example:5000") == (former,)
    servers, problems = directories.described()
    assert servers == {"r.example:5000": ["https://one.example/v2"]}
    assert len(problems) == 1 and "hosts.toml: not TOML" in problems[0]
    assert caplog.text.count("registry configuration refused") == 2
    file.write_text('server = "https://two.example"')
    assert directories.described() == ({"r.example:5000": ["https://two.example/v2"]}, [])


def test_other_directories_are_read_after_a_reload(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "r.example").mkdir(parents=True)
        (tmp_path / name / "r.example" / "hosts.toml").write_text(f'server = "https://{name}.example"')
    directories = HostDirectories([tmp_path / "a"])
    assert directories.find("r.example")[0].host == "a.example"
    directories.configure([tmp_path / "b"])
    assert directories.find("r.example")[0].host == "b.example"


def test_remembered_registries_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_directories, "_MOST_HOSTS", 2)
    (tmp_path / "_default").mkdir()
    file = tmp_path / "_default" / "hosts.toml"
    file.write_text('server = "https://one.example"')
    directories = HostDirectories([tmp_path])
    for host in ("a", "b", "c"):
        directories.find(host)
    file.write_text("[")
    assert directories.find("c") and directories.find("b")
    with pytest.raises(Invalid):
        directories.find("a")
