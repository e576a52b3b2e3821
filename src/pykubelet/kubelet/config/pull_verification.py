"""The fields that say which present images a pod may use only with the credentials of their registry (KEP-2535)."""

from collections.abc import Iterator
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.base.image_reference import without_tag
from pykubelet.kubelet.config.v1beta1 import KubeletConfiguration

_ALLOWLISTED: Final = "NeverVerifyAllowlistedImages"
_POLICIES: Final = ("NeverVerify", "NeverVerifyPreloadedImages", _ALLOWLISTED, "AlwaysVerify")


def wrong_verification(config: KubeletConfiguration) -> Iterator[str]:
    """Yield the violations of the Go kubelet's rules, each beginning with the field."""
    policy = config.image_pull_credentials_verification_policy
    allowlist = config.preloaded_images_verification_allowlist
    if policy not in _POLICIES:
        yield f"imagePullCredentialsVerificationPolicy: {policy!r} is not known; use one of {', '.join(_POLICIES)}"
    if allowlist and policy != _ALLOWLISTED:
        yield (
            "preloadedImagesVerificationAllowlist: can't set `preloadedImagesVerificationAllowlist` if "
            f'`imagePullCredentialsVerificationPolicy` is not "{_ALLOWLISTED}"'
        )
    for index, pattern in enumerate(allowlist):
        if complaint := _complaint(pattern):
            yield f"preloadedImagesVerificationAllowlist[{index}]: {complaint}"


def _complaint(pattern: str) -> str:
    """Say why a pattern is invalid; empty if it is a repository, or a prefix that ends with ``/*``."""
    if pattern != pattern.strip():
        return f"leading/trailing spaces are not allowed: {pattern!r}"
    prefix = pattern.removesuffix("*") if pattern.endswith("/*") else pattern
    if not prefix:
        return "the supplied pattern is too short; write an image without its tag, or REGISTRY/PATH/*"
    if "*" in prefix:
        return f"not a valid wildcard pattern, only patterns ending with '/*' are allowed: {pattern}"
    if prefix != pattern:
        return "at least registry hostname is required" if prefix == "/" else ""
    try:
        name = without_tag(pattern)
    except Invalid as error:
        return f"failed to parse as an image name: {error}"
    if name != pattern:
        return f"neither tag nor digest is accepted in an image reference: {pattern}; write {name}"
    return ""
