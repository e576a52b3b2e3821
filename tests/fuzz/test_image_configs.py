"""Arbitrary manifests, indexes and configurations: read, or refused with a short error of the project's own types."""

import json
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import PykubeletError
from pykubelet.base.text import encodable
from pykubelet.base.units import KIB
from pykubelet.criserver.images import limits, manifests
from pykubelet.criserver.images.image_types import ImageConfig, ImageRecord
from pykubelet.criserver.images.manifests import Platform
from pykubelet.criserver.images.registry.auth import Challenge, HostCredentials, parse_challenges, token_requests
from pykubelet.criserver.images.registry.config import Endpoint
from pykubelet.criserver.images.registry.http import _redirected, same_origin
from pykubelet.criserver.server.cri_calls.images import image_of

_T = TypeVar("_T")
_WHAT = "image demo/app:1"
_DIGEST = "sha256:" + "0" * 64
_HERE = Platform("amd64", "linux")

texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(("", "\0", "0", "-1", "--5", "²", "v²", "1" * 30, "x" * 5000, "linux", "amd64", "arm64", _DIGEST)),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=8,
)


def object_of(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object whose fields mostly have the right type; some are missing or of another type."""
    return st.one_of(*[st.fixed_dictionaries({}, optional=fields)] * 4, values)


platforms = object_of(os=texts, architecture=texts, variant=texts)
descriptors = object_of(
    digest=st.one_of(st.just(_DIGEST), texts),
    size=st.one_of(st.integers(0, 1000), st.integers()),
    mediaType=st.one_of(
        st.sampled_from((*manifests.MANIFESTS, *manifests.INDEXES, manifests.OCI_CONFIG, manifests.OCI_LAYER)), texts
    ),
    platform=platforms,
    annotations=st.dictionaries(texts, texts, max_size=2),
)
documents = object_of(
    schemaVersion=st.one_of(st.just(2), st.integers()),
    mediaType=st.one_of(st.sampled_from((*manifests.MANIFESTS, *manifests.INDEXES)), texts),
    config=descriptors,
    layers=st.lists(descriptors, max_size=3),
    manifests=st.lists(descriptors, max_size=4),
    fsLayers=values,
)
lists = st.lists(texts, max_size=4)
configs = object_of(
    architecture=texts,
    os=texts,
    variant=texts,
    rootfs=object_of(type=texts, diff_ids=st.lists(st.one_of(st.just(_DIGEST), texts), max_size=3)),
    config=object_of(
        Entrypoint=lists,
        Cmd=lists,
        Env=lists,
        User=texts,
        WorkingDir=texts,
        Volumes=st.dictionaries(texts, values, max_size=3),
        StopSignal=texts,
        Labels=st.dictionaries(texts, texts, max_size=3),
        ExposedPorts=st.dictionaries(texts, values, max_size=3),
    ),
)


def encoded(found: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    """JSON in compact or indented form, possibly damaged, or other data."""
    plain = st.builds(lambda value, ascii: json.dumps(value, ensure_ascii=ascii), found, st.booleans())
    sound = plain.map(lambda text: text.encode(errors="surrogatepass"))
    damaged = st.builds(
        lambda data, at, new: data[: at % (len(data) + 1)] + new + data[at % (len(data) + 1) + len(new) :],
        sound,
        st.integers(0, 2000),
        st.sampled_from((b"", b"\xff", b'"\\ud800"', b"[[[[", b"1e999", b"\0", b',"User":"x"')),
    )
    return st.one_of(sound, sound, sound, damaged, st.binary(max_size=60))


def read(work: Callable[[], object]) -> object:
    """The result; None if the input was refused with an intended error."""
    try:
        return work()
    except PykubeletError as error:
        said = str(error)
        assert _WHAT in said and len(said) < 4 * KIB and encodable(said) and "\0" not in said
        return None


@given(encoded(configs))
def test_any_configuration_is_bounded_or_refused(data: bytes) -> None:
    parsed = read(lambda: manifests.parse_config(data, _WHAT))
    if isinstance(parsed, manifests.ParsedConfig):
        limits.check_config(parsed.config, _WHAT)
        assert "\0" not in parsed.config.user and len(parsed.diff_ids) <= limits.MAX_LAYERS
        record = ImageRecord(_DIGEST, (), (), 1, parsed.config, (), _DIGEST)
        assert len(image_of(record).SerializeToString()) < 1 * KIB
        read(lambda: manifests.check_platform(parsed.platform, _HERE, _WHAT))


@given(encoded(documents), st.sampled_from(manifests.MANIFESTS), lists)
def test_any_manifest_is_read_or_refused(data: bytes, kind: str, diff_ids: list[str]) -> None:
    manifests.media_type_of(data)
    found = read(lambda: manifests.parse_manifest(data, kind, _WHAT))
    if isinstance(found, manifests.Manifest):
        read(lambda: manifests.stack(found, diff_ids, _WHAT))


@given(encoded(documents), st.sampled_from(manifests.INDEXES))
def test_any_index_is_read_or_refused(data: bytes, kind: str) -> None:
    found = read(lambda: manifests.parse_index(data, kind, _WHAT))
    if isinstance(found, tuple):
        chosen = read(lambda: manifests.choose(found, _HERE, _WHAT))
        assert chosen is None or chosen in found


@given(st.builds(ImageConfig, user=texts, env=lists.map(tuple), labels=st.dictionaries(texts, texts, max_size=2)))
def test_any_stored_configuration_is_checked_without_another_error(config: ImageConfig) -> None:
    read(lambda: limits.check_config(config, _WHAT))


@given(st.lists(st.one_of(st.text(max_size=80), st.text('ab="\\, \t', max_size=300)), max_size=4))
def test_any_challenges_are_read(headers: list[str]) -> None:
    assert all(challenge.scheme for challenge in parse_challenges(headers))


_HOSTS = ("registry.example", "a..b", "[::1]", "[::1", "[v1.x]", "a b", "user@", "user:pw@host", "\ud800", "127.0.0.1")
_PORTS = ("", ":0", ":443", ":99999", ":port", ":-1", ":", ":²")
_PATHS = ("", "/token", "/a?b#c", "/\ud800", "?")
_schemes = st.sampled_from(("https://", "http://", "//", "ftp://", ""))
urls = st.one_of(
    st.text(max_size=40),
    st.tuples(_schemes, st.sampled_from(_HOSTS), st.sampled_from(_PORTS), st.sampled_from(_PATHS)).map("".join),
)


def allowed(work: Callable[[], _T]) -> _T | None:
    """The result; None if it was refused with an intended error that can be shown."""
    try:
        return work()
    except PykubeletError as error:
        assert encodable(str(error)) and len(str(error)) < 4 * KIB
        return None


@given(urls)
def test_any_token_service_is_asked_by_a_valid_url_or_refused(realm: str) -> None:
    endpoint = Endpoint("https://registry.example", "registry.example")
    challenge = Challenge("bearer", {"realm": realm, "service": realm})
    secret = HostCredentials("user", "secret-word", identity_token="secret-word")
    for asked in allowed(lambda: token_requests(challenge, secret, endpoint, "app")) or ():
        parts = urlsplit(asked.url)
        assert parts.scheme == "https" and parts.hostname and parts.port != -1
        assert same_origin(asked.url, asked.url)


@given(urls, st.sampled_from(("https://registry.example/v2/", "http://127.0.0.1:5000/v2/")))
def test_any_redirect_leads_to_a_valid_url_or_is_refused(location: str, asked: str) -> None:
    target = allowed(lambda: _redirected(asked, location))
    if target is not None:
        assert urlsplit(target).scheme in ("http", "https") and urlsplit(target).hostname
        assert not (asked.startswith("https") and target.startswith("http:"))
        same_origin(target, asked)
