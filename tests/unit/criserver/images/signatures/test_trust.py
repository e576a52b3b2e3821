"""Pulls under an image policy: from a registry with signatures as cosign pushes them."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pykubelet.base.errors import PykubeletError
from pykubelet.criserver.images import manifests
from pykubelet.criserver.images.image_types import RegistryUnavailable, SignatureRejected, VerifiedSignature
from pykubelet.criserver.images.signatures import Action, Rule, load_key, trust
from pykubelet.criserver.images.signatures.plan.claims import MAX_SIGNATURES, REFERRER_TYPE
from pykubelet.testing.signing import ANNOTATION, PAYLOAD_TYPE, KeyKind, Signer, claim, new_signer, tag_of
from tests.unit.criserver.images.fakeregistry import FakeRegistry, digest
from tests.unit.criserver.images.world import DIFFS, LAYERS, World

_SIGNER, _OTHER = new_signer(), new_signer()


def _rule(*signers: Signer, **fields: str) -> Callable[[str], Rule]:
    keys = tuple(load_key(signer.pem, "key") for signer in signers)
    return lambda _: Rule(action=Action.REQUIRE, keys=keys, source="policy.toml: default", **fields)


def _image(registry: FakeRegistry) -> str:
    return registry.add_image("app:1", LAYERS[:1], DIFFS[:1])


def _signatures(registry: FakeRegistry, signed: Sequence[tuple[bytes, str]]) -> bytes:
    """A manifest with signatures, each a payload and its signature in base64."""
    layers = [
        {**registry.descriptor(PAYLOAD_TYPE, payload), "annotations": {ANNOTATION: signature}}
        for payload, signature in signed
    ]
    config = registry.descriptor(manifests.OCI_CONFIG, b"{}")
    body = {"schemaVersion": 2, "mediaType": manifests.OCI_MANIFEST, "config": config, "layers": layers}
    return json.dumps(body).encode()


def _sign(registry: FakeRegistry, manifest: str, *signed: tuple[bytes, str]) -> None:
    registry.add_manifest(f"app:{tag_of(manifest)}", manifests.OCI_MANIFEST, _signatures(registry, signed))


def _world(tmp_path: Path, rule_for: Callable[[str], Rule]) -> World:
    return World(tmp_path, rule_for=rule_for)


def _assert_nothing_stored(world: World) -> None:
    assert world.content.digests() == set() and world.images.list() == []
    assert list((world.content.root / "ingest").iterdir()) == []


@pytest.mark.parametrize("kind", KeyKind)
async def test_signed_image_is_pulled_and_its_signature_recorded(
    registry: FakeRegistry, tmp_path: Path, kind: KeyKind
) -> None:
    signer, repository = new_signer(kind), f"{registry.host}/app"
    payload = claim(repository, _image(registry))
    _sign(registry, digest(registry.manifests["app:1"][1]), (payload, signer.sign(payload)))
    world = _world(tmp_path, _rule(_OTHER, signer))
    pulled = await world.images.pull(f"{repository}:1")
    world.check(pulled)
    assert pulled.verified == (VerifiedSignature(repository, load_key(signer.pem, "key").fingerprint),)
    await world.trust.check_use(pulled, f"{repository}:1")
    assert World(tmp_path).images.status(pulled.id) == pulled, "it is on the disk"


async def test_verified_signature_is_not_fetched_again(registry: FakeRegistry, tmp_path: Path) -> None:
    repository = f"{registry.host}/app"
    payload = claim(repository, _image(registry))
    _sign(registry, digest(registry.manifests["app:1"][1]), (payload, _SIGNER.sign(payload)))
    world = _world(tmp_path, _rule(_SIGNER))
    first = await world.images.pull(f"{repository}:1")
    registry.seen.clear()
    assert await world.images.pull(f"{repository}:1") == first
    assert not [path for path, *_ in registry.seen if ".sig" in path]


def _cases(repository: str, manifest: str) -> dict[str, tuple[bytes, str] | None]:
    good = claim(repository, manifest)
    elsewhere, later = claim(f"{repository}2", manifest), claim(repository, digest(b"other"))
    kind = claim(repository, manifest, "atomic container signature")
    return {
        "none was found": None,
        "by none of the keys": (good, _OTHER.sign(good)),
        "another digest": (later, _SIGNER.sign(later)),
        "another repository": (elsewhere, _SIGNER.sign(elsewhere)),
        "of type": (kind, _SIGNER.sign(kind)),
        "none of the keys": (good, _SIGNER.sign(later)),
    }


@pytest.mark.parametrize("why", list(_cases("", "")))
async def test_image_without_a_right_signature_is_refused(registry: FakeRegistry, tmp_path: Path, why: str) -> None:
    manifest, repository = _image(registry), f"{registry.host}/app"
    signed = _cases(repository, manifest)[why]
    if signed is not None:
        _sign(registry, manifest, signed)
    world = _world(tmp_path, _rule(_SIGNER))
    with pytest.raises(SignatureRejected, match=why) as refused:
        await world.images.pull(f"{repository}:1")
    said = str(refused.value)
    assert said.startswith("SignatureValidationFailed: "), "kubelets recognize the beginning"
    assert f"{repository}:1" in said and "policy.toml: default" in said
    assert not [path for path, *_ in registry.seen if digest(LAYERS[0]) in path], "no layer was fetched"
    _assert_nothing_stored(world)


async def test_one_right_signature_among_others_is_enough(registry: FakeRegistry, tmp_path: Path) -> None:
    manifest, repository = _image(registry), f"{registry.host}/app"
    good = claim(repository, manifest)
    signed = [case for case in _cases(repository, manifest).values() if case]
    _sign(registry, manifest, *signed, (good, _SIGNER.sign(good)))
    assert (await _world(tmp_path, _rule(_SIGNER)).images.pull(f"{repository}:1")).verified


async def test_signature_of_an_index_or_of_its_manifest_is_enough(registry: FakeRegistry, tmp_path: Path) -> None:
    repository = f"{registry.host}/app"
    kind, data = registry.make_image(LAYERS[:1], DIFFS[:1])
    registry.add_manifest("app:inner", kind, data)
    platform = {"os": "linux", "architecture": "amd64"}
    entry = {"mediaType": kind, "digest": digest(data), "size": len(data), "platform": platform}
    index = json.dumps({"schemaVersion": 2, "mediaType": manifests.OCI_INDEX, "manifests": [entry]}).encode()
    top = registry.add_manifest("app:1", manifests.OCI_INDEX, index)
    for number, signed in enumerate((top, digest(data))):
        payload = claim(repository, signed)
        for tag in [key for key in registry.manifests if key.endswith(".sig")]:
            del registry.manifests[tag]
        _sign(registry, signed, (payload, _SIGNER.sign(payload)))
        world = _world(tmp_path / str(number), _rule(_SIGNER))
        assert (await world.images.pull(f"{repository}:1")).verified


@pytest.mark.parametrize("by_tag", [False, True], ids=["referrers", "fallback tag"])
async def test_signature_is_found_by_its_subject(registry: FakeRegistry, tmp_path: Path, by_tag: bool) -> None:
    manifest, repository = _image(registry), f"{registry.host}/app"
    payload = claim(repository, manifest)
    data = _signatures(registry, [(payload, _SIGNER.sign(payload))])
    registry.add_manifest("app:unused", manifests.OCI_MANIFEST, data)
    described = {"mediaType": manifests.OCI_MANIFEST, "digest": digest(data), "size": len(data)}
    noise = {**described, "digest": digest(b"sbom"), "artifactType": "application/spdx+json"}
    entries = [noise, {**described, "artifactType": REFERRER_TYPE}]
    index = json.dumps({"schemaVersion": 2, "mediaType": manifests.OCI_INDEX, "manifests": entries}).encode()
    if by_tag:
        registry.add_manifest(f"app:{manifest.replace(':', '-')}", manifests.OCI_INDEX, index)
    else:
        registry.referrers[f"app:{manifest}"] = index
    assert (await _world(tmp_path, _rule(_SIGNER)).images.pull(f"{repository}:1")).verified
    assert not [path for path, *_ in registry.seen if digest(b"sbom") in path]


async def test_copy_of_an_image_is_signed_as_the_original(registry: FakeRegistry, tmp_path: Path) -> None:
    manifest, repository = _image(registry), f"{registry.host}/app"
    payload = claim("vendor.example/app", manifest)
    _sign(registry, manifest, (payload, _SIGNER.sign(payload)))
    with pytest.raises(SignatureRejected, match=r"another repository, 'vendor\.example/app'"):
        await _world(tmp_path / "a", _rule(_SIGNER)).images.pull(f"{repository}:1")
    copied = _rule(_SIGNER, scope=registry.host, signed_as="vendor.example")
    pulled = await _world(tmp_path / "b", copied).images.pull(f"{repository}:1")
    assert [each.repository for each in pulled.verified] == ["vendor.example/app"]


async def test_denied_image_needs_no_request(registry: FakeRegistry, tmp_path: Path) -> None:
    _image(registry)
    world = _world(tmp_path, lambda _: Rule(action=Action.DENY, source="policy.toml: default"))
    with pytest.raises(SignatureRejected, match=r"SignatureValidationFailed: image .* is denied .*policy\.toml"):
        await world.images.pull(f"{registry.host}/app:1")
    assert registry.seen == []


async def test_stricter_policy_refuses_an_image_that_is_present_until_it_is_pulled_again(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    manifest, repository = _image(registry), f"{registry.host}/app"
    pulled = await World(tmp_path).images.pull(f"{repository}:1")
    world = _world(tmp_path, _rule(_SIGNER))
    for name in (f"{repository}:1", pulled.id):
        with pytest.raises(SignatureRejected, match=r"SignatureValidationFailed: .*pull it again"):
            await world.trust.check_use(pulled, name)
    with pytest.raises(SignatureRejected, match="none was found"):
        await world.images.pull(f"{repository}:1")
    assert world.images.list() == [pulled], "a pull that is refused removes nothing"
    payload = claim(repository, manifest)
    _sign(registry, manifest, (payload, _SIGNER.sign(payload)))
    pulled = await world.images.pull(f"{repository}:1")
    assert pulled.verified
    await world.trust.check_use(pulled, f"{repository}:1")
    with pytest.raises(SignatureRejected):
        await _world(tmp_path, _rule(_OTHER)).trust.check_use(pulled, f"{repository}:1")


async def test_registry_of_endless_signatures_is_read_to_a_limit(registry: FakeRegistry, tmp_path: Path) -> None:
    """A manifest with too many is refused; many manifests share one limit."""
    manifest, repository = _image(registry), f"{registry.host}/app"
    payload = claim(repository, manifest)
    bad = [(payload, _OTHER.sign(payload))] * MAX_SIGNATURES
    _sign(registry, manifest, *bad, *bad[:1])
    entries = []
    for number in range(100):
        data = _signatures(registry, [*bad[:10], (b"%d" % number, bad[0][1])])
        registry.add_manifest("app:unused", manifests.OCI_MANIFEST, data)
        described = {"mediaType": manifests.OCI_MANIFEST, "digest": digest(data), "size": len(data)}
        entries.append({**described, "artifactType": REFERRER_TYPE})
    index = {"schemaVersion": 2, "mediaType": manifests.OCI_INDEX, "manifests": entries}
    registry.referrers[f"app:{manifest}"] = json.dumps(index).encode()
    with pytest.raises(SignatureRejected, match="at most 64"):
        await _world(tmp_path, _rule(_SIGNER)).images.pull(f"{repository}:1")
    assert len([path for path, *_ in registry.seen if "/blobs/" in path]) <= MAX_SIGNATURES


@pytest.mark.parametrize("fault", ["changed", "longer", "no manifest", "index"])
async def test_damaged_signatures_are_none(registry: FakeRegistry, tmp_path: Path, fault: str) -> None:
    manifest, repository = _image(registry), f"{registry.host}/app"
    payload = claim(repository, manifest)
    _sign(registry, manifest, (payload, _SIGNER.sign(payload)))
    key = f"app:{tag_of(manifest)}"
    if fault == "changed":
        registry.blobs[digest(payload)] = payload.replace(b"sha256", b"SHA256")
    elif fault == "longer":
        registry.blobs[digest(payload)] = payload + b" " * 100_000
    elif fault == "no manifest":
        registry.manifests[key] = (manifests.OCI_MANIFEST, b"{")
    else:
        registry.manifests[key] = (manifests.OCI_INDEX, b'{"schemaVersion":2,"manifests":[]}')
    world = _world(tmp_path, _rule(_SIGNER))
    with pytest.raises(SignatureRejected):
        await world.images.pull(f"{repository}:1")
    _assert_nothing_stored(world)


async def test_registry_that_fails_for_signatures_is_unavailable(registry: FakeRegistry, tmp_path: Path) -> None:
    """The image is not refused for good: kubelets try again."""
    _image(registry)
    registry.fails = ".sig"
    with pytest.raises(RegistryUnavailable):
        await _world(tmp_path, _rule(_SIGNER)).images.pull(f"{registry.host}/app:1")


async def test_signatures_that_do_not_arrive_are_given_up(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = f"{registry.host}/app"
    payload = claim(repository, manifest := _image(registry))
    _sign(registry, manifest, (payload, _SIGNER.sign(payload)))
    monkeypatch.setattr(trust, "_TIME", 0.2)
    registry.pause = asyncio.Event()
    with pytest.raises(RegistryUnavailable, match="did not arrive within"):
        await _world(tmp_path, _rule(_SIGNER)).images.pull(f"{repository}:1")
    registry.pause.set()


async def test_policy_that_cannot_be_read_permits_nothing(registry: FakeRegistry, tmp_path: Path) -> None:
    _image(registry)
    pulled = await World(tmp_path).images.pull(f"{registry.host}/app:1")

    def broken(_: str) -> Rule:
        raise PykubeletError("policy.toml: default: unknown field")

    world = _world(tmp_path, broken)
    with pytest.raises(PykubeletError, match="unknown field"):
        await world.images.pull(f"{registry.host}/app:1")
    with pytest.raises(PykubeletError, match="unknown field"):
        await world.trust.check_use(pulled, "")
