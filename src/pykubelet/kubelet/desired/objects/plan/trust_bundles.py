"""Selection of the certificates of a clusterTrustBundle source (KEP-3257), and parsing of PEM. Pure."""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Final

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.models.certificates_v1beta1 import ClusterTrustBundle
from pykubelet.models.core_v1 import ClusterTrustBundleProjection
from pykubelet.models.meta_v1 import LabelSelector

_BLOCK: Final = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)(-----END CERTIFICATE-----|\Z)", re.DOTALL)
"""A certificate, also one without an end: a search from each of many beginnings would take minutes."""
_LINE: Final = 64


def anchors(bundles: Iterable[ClusterTrustBundle], source: ClusterTrustBundleProjection) -> bytes:
    """Return the certificates as PEM, each once, in arbitrary order.

    Raises NotFound if no bundle matches, unless it is optional; Invalid for a source without bundle and signer.
    """
    if source.name is not None:
        chosen = [bundle for bundle in bundles if bundle.metadata.name == source.name]
        missing = f'clustertrustbundle.certificates.k8s.io "{source.name}" not found'
    elif source.signer_name is not None:
        chosen = [
            bundle
            for bundle in bundles
            if bundle.spec.signer_name == source.signer_name and selects(source.label_selector, bundle.metadata.labels)
        ]
        missing = "combination of signerName and labelSelector matched zero ClusterTrustBundles"
    else:
        raise Invalid("ClusterTrustBundle projection requires either name or signerName to be set")
    if not chosen and not source.optional:
        raise NotFound(missing)
    certificates = {body for bundle in chosen for body in _bodies(bundle.spec.trust_bundle)}
    return b"".join(_pem(body) for body in sorted(certificates))


def chain(text: str) -> bytes:
    """Return the certificates of a PEM text in their order, without other text. Raises Invalid if malformed."""
    return b"".join(_pem(body) for body in _bodies(text))


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches; None matches nothing, an empty one everything (the API's rule)."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    for each in selector.match_expressions:
        value = labels.get(each.key)
        match each.operator:
            case "In":
                fits = value is not None and value in each.values
            case "NotIn":
                fits = value is None or value not in each.values
            case "Exists":
                fits = value is not None
            case "DoesNotExist":
                fits = value is None
            case _:
                fits = False
        if not fits:
            return False
    return True


def _bodies(text: str) -> Iterable[bytes]:
    for block, end in _BLOCK.findall(text):
        if not end:
            return
        try:
            yield base64.b64decode("".join(block.split()), validate=True)
        except binascii.Error as error:
            raise Invalid(f"a certificate is no base64: {error}") from error


def _pem(body: bytes) -> bytes:
    text = base64.b64encode(body).decode()
    lines = [text[start : start + _LINE] for start in range(0, len(text), _LINE)]
    return "\n".join(("-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", "")).encode()
