"""Applies the image policy: to a pull, before any blob is fetched, and to an image that is about to be used."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Invalid, NotFound
from pykubelet.base.image_reference import Reference
from pykubelet.base.units import Seconds
from pykubelet.criserver.images import manifests
from pykubelet.criserver.images.image_interfaces import Repository
from pykubelet.criserver.images.image_types import (
    ImageRecord,
    RegistryUnavailable,
    SignatureRejected,
    VerifiedSignature,
)
from pykubelet.criserver.images.signatures.keys import Key
from pykubelet.criserver.images.signatures.memory_sink import MemorySink
from pykubelet.criserver.images.signatures.plan.claims import (
    MAX_SIGNATURES,
    REFERRER_TYPE,
    AttachedSignature,
    attached,
    check_claim,
)
from pykubelet.criserver.images.signatures.plan.policy import Action, Rule, refusal

_TIME: Final[Seconds] = 120.0
"""Time limit for fetching and verifying the signatures of one image."""
_MAX_REFERRERS: Final = 16
_SHOWN: Final = 3
_OWNER: Final = "image-policy"
_PREFIX: Final = "SignatureValidationFailed"
"""Kubelets recognize the error by this word (cri-api ``pkg/errors``)."""


class Candidate(Struct, frozen=True):
    """An image whose reference was resolved, and whose signature may be needed."""

    wanted: Reference
    digests: tuple[str, ...]
    """The digest to which the reference resolves, and that of the manifest for this platform."""
    verified: tuple[VerifiedSignature, ...]
    """Signatures that were verified when the same content was pulled before."""


class Trust:
    """The image policy. ``rule_for`` returns the rule of a repository; it blocks and may raise Invalid."""

    def __init__(self, rule_for: Callable[[str], Rule]) -> None:
        self._rule_for = rule_for

    async def rule_for(self, wanted: Reference) -> Rule:
        """The rule of an image that is to be pulled. Raises SignatureRejected if it is denied, Invalid."""
        rule = await blocking.call(_OWNER, self._rule_for, wanted.name)
        if rule.action is Action.DENY:
            raise _rejected(f"image {wanted} is denied by the image policy ({rule.source})")
        return rule

    async def verify(self, rule: Rule, repository: Repository, image: Candidate) -> tuple[VerifiedSignature, ...]:
        """Verify that the image has a signature that the rule requires; returns those that are known now.

        Raises SignatureRejected, or the errors of ``Repository`` if the signatures cannot be fetched.
        """
        name = image.wanted.name
        if rule.action is not Action.REQUIRE or rule.satisfied_by(name, image.verified):
            return image.verified
        search = _Search(rule=rule, repository=repository, image=image)
        try:
            async with asyncio.timeout(_TIME):
                found = await search.run()
        except TimeoutError as error:
            raise RegistryUnavailable(f"the signatures of {image.wanted} did not arrive within {_TIME:g} s") from error
        if found is None:
            why = "; ".join(search.reasons) or f"none was found for {' or '.join(image.digests)}"
            raise _rejected(
                f"image {image.wanted} has no signature that the image policy requires ({rule.source}): {why}"
            )
        return (*image.verified, found)

    async def check_use(self, image: ImageRecord, name: str) -> None:
        """Check that an image that is present may be used under the name. Raises SignatureRejected, Invalid."""
        reason = await blocking.call(_OWNER, refusal, self._rule_for, image, name)
        if reason:
            raise _rejected(reason)


class _Search:
    """The search for one valid signature of an image."""

    def __init__(self, *, rule: Rule, repository: Repository, image: Candidate) -> None:
        self._rule = rule
        self._repository = repository
        self._image = image
        self._identity = rule.identity(image.wanted.name)
        self._left = MAX_SIGNATURES
        """Number of signatures that may still be read: a registry must not keep this machine busy."""
        self.reasons: tuple[str, ...] = ()
        """Reasons why the first signatures that were found are not valid."""

    async def run(self) -> VerifiedSignature | None:
        """Return the first valid signature: of those by tag, then of those by the referrers API; None if none is."""
        for digest in self._image.digests:
            key = await self._first(f"{digest.replace(':', '-')}.sig")
            for target in () if key else await self._referrers(digest):
                key = key or await self._first(target)
            if key is not None:
                return VerifiedSignature(self._identity, key.fingerprint)
        return None

    async def _first(self, target: str) -> Key | None:
        """The key of the first valid signature in a manifest."""
        for signature in await self._attached(target):
            if self._left == 0:
                self._note(f"only {MAX_SIGNATURES} signatures are read")
                return None
            self._left -= 1
            key = await self._verified(signature)
            if key is not None:
                return key
        return None

    async def _referrers(self, digest: str) -> Sequence[str]:
        """The digests of manifests with signatures that refer to a digest."""
        try:
            data, media_type = await self._repository.referrers(digest)
            entries = manifests.parse_index(data, media_type, f"referrers of {digest}")
        except NotFound:
            return ()
        except Invalid as error:
            self._note(str(error))
            return ()
        signed = [entry.digest for entry in entries if REFERRER_TYPE in (entry.artifact_type, entry.media_type)]
        return signed[:_MAX_REFERRERS]

    async def _attached(self, target: str) -> Sequence[AttachedSignature]:
        what = f"signature {self._image.wanted.name}:{target}"
        try:
            data, media_type = await self._repository.manifest(target, manifests.OCI_MANIFEST)
            return attached(manifests.parse_blobs(data, media_type, what), what)
        except NotFound:
            return ()
        except Invalid as error:
            self._note(str(error))
            return ()

    async def _verified(self, signature: AttachedSignature) -> Key | None:
        """The key by which a signature is valid, and says what it has to say; None, with a reason noted."""
        try:
            payload = await self._payload(signature)
            key = await blocking.call(_OWNER, _signer, self._rule.keys, signature.signature, payload)
            if key is None:
                self._note("a signature is by none of the keys")
                return None
            check_claim(payload, self._image.digests, self._identity)
        except (Invalid, NotFound) as error:
            self._note(str(error))
            return None
        return key

    async def _payload(self, signature: AttachedSignature) -> bytes:
        sink = MemorySink(signature.payload)
        await self._repository.blob(signature.payload, sink, lambda _: None)
        return sink.data

    def _note(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons = (*self.reasons, reason)[:_SHOWN]


def _signer(keys: Sequence[Key], signature: bytes, payload: bytes) -> Key | None:
    return next((key for key in keys if key.verifies(signature, payload)), None)


def _rejected(reason: str) -> SignatureRejected:
    return SignatureRejected(f"{_PREFIX}: {reason}")
