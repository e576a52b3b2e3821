"""The policy that decides which images may be used: its rules, and the rule of one image. Pure."""

from collections.abc import Callable, Collection
from enum import StrEnum

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.criserver.images.image_types import ImageRecord, VerifiedSignature
from pykubelet.criserver.images.reference import canonical, id_prefix, is_digest, parse
from pykubelet.criserver.images.signatures.keys import Key


class Action(StrEnum):
    """Action of a rule on an image."""

    ALLOW = "allow"
    DENY = "deny"
    REQUIRE = "require"
    """Accept it with a valid signature by one of the rule's keys only."""


class Rule(Struct, frozen=True, kw_only=True):
    """The rule for the images of one scope."""

    action: Action
    scope: str = ""
    """A registry, or a prefix of repositories; empty for the default."""
    keys: tuple[Key, ...] = ()
    signed_as: str = ""
    """The scope's name in signatures, for copies of images of other registries; empty: the scope itself."""
    source: str = ""
    """The file and the entry of the rule, for messages."""

    def identity(self, repository: str) -> str:
        """The repository that a signature of an image of ``repository`` has to name."""
        given = canonical(repository)
        return canonical(f"{self.signed_as}{given.removeprefix(canonical(self.scope))}") if self.signed_as else given

    def satisfied_by(self, repository: str, verified: Collection[VerifiedSignature]) -> bool:
        """Whether a signature that was verified earlier, of the same content, is one that the rule requires."""
        keys, identity = {key.fingerprint for key in self.keys}, self.identity(repository)
        return any(canonical(each.repository) == identity and each.key in keys for each in verified)


def allow_all(repository: str) -> Rule:  # as of a policy
    """The rule without a policy: every image is allowed."""
    return Rule(action=Action.ALLOW)


def longest_scope(scopes: Collection[str], repository: str) -> str:
    """The longest of the scopes that contains a repository (``host/path``), by whole components; empty: none does.

    Hosts are compared by their canonical spelling: every author of a pod chooses how to spell them.
    """
    given: dict[str, str] = {}
    for each in sorted(scopes, key=lambda scope: not f"{repository}/".startswith(f"{scope}/")):
        given.setdefault(canonical(each), each)
    scope = canonical(repository)
    while scope and scope not in given:
        scope = scope.rpartition("/")[0]
    return given.get(scope, "")


def refusal(rule_for: Callable[[str], Rule], image: ImageRecord, name: str) -> str:
    """Return the reason to refuse a present image under a name; empty if it may be used.

    ``rule_for`` returns the rule of a repository, for an empty one that of images without a name. If ``name`` is no
    name, but an id of the image or the beginning of one, one of the image's own names has to permit it.
    """
    given = "" if _is_id(name, image) else _repository(name)
    names = [given] if given else sorted(map(_repository, (*image.tags, *image.digests))) or [""]
    reasons = [_refused(rule_for(each), each, image) for each in dict.fromkeys(names)]
    return "" if "" in reasons else reasons[0]


def _is_id(name: str, image: ImageRecord) -> bool:
    """Whether a name means the image by its id: ``sha256:1234`` would also be the tag of a repository."""
    prefix = id_prefix(name)
    return is_digest(name) or bool(prefix and image.id.startswith(f"sha256:{prefix}"))


def _repository(name: str) -> str:
    """The repository of a name; empty if it is no name."""
    try:
        return parse(name).name
    except Invalid:
        return ""


def _refused(rule: Rule, repository: str, image: ImageRecord) -> str:
    if rule.action is Action.ALLOW or (rule.action is Action.REQUIRE and rule.satisfied_by(repository, image.verified)):
        return ""
    shown = repository or image.id
    if rule.action is Action.DENY:
        return f"image {shown} is denied by the image policy ({rule.source})"
    return (
        f"image {shown} is present without a verified signature, which the image policy requires ({rule.source}); "
        "pull it again (pykubelet image pull)"
    )
