"""Rules for metadata, ConfigMaps and Secrets."""

from collections.abc import Mapping
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.base.files.documents import read_json
from pykubelet.kubelet.desired.manifest.validate import names
from pykubelet.kubelet.desired.manifest.validate.findings import Findings
from pykubelet.models import core_v1 as core
from pykubelet.models.meta_v1 import ObjectMeta

MAX_DATA_BYTES: Final = 1024 * 1024
MAX_ANNOTATION_BYTES: Final = 256 * 1024
_REQUIRED_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def check_metadata(findings: Findings, meta: ObjectMeta) -> None:
    """Check name, namespace, labels and annotations."""
    if findings.required("metadata.name", meta.name):
        findings.complaint("metadata.name", names.dns_subdomain(meta.name))
    if meta.namespace:
        findings.complaint("metadata.namespace", names.dns_label(meta.namespace))
    if meta.uid and ("/" in meta.uid or meta.uid in (".", "..") or len(meta.uid) > 128):
        findings.add("metadata.uid", "cannot name a directory", "take it away; the agent makes one")
    for key, value in meta.labels.items():
        findings.complaint(f"metadata.labels[{key}]", names.qualified_name(key))
        findings.complaint(f"metadata.labels[{key}]", names.label_value(value))
    for key in meta.annotations:
        findings.complaint(f"metadata.annotations[{key}]", names.qualified_name(key.lower()))
    size = sum(len(key.encode()) + len(value.encode()) for key, value in meta.annotations.items())
    if size > MAX_ANNOTATION_BYTES:
        findings.add("metadata.annotations", f"hold {size} bytes, {MAX_ANNOTATION_BYTES} are possible", "shorten them")


def check_config_map(findings: Findings, config_map: core.ConfigMap) -> None:
    """Check a ConfigMap of a manifest."""
    check_metadata(findings, config_map.metadata)
    for key in config_map.data:
        findings.complaint(f"data[{key}]", names.config_key(key))
        if key in config_map.binary_data:
            findings.add(f"data[{key}]", "is also in binaryData", "take one away")
    for key in config_map.binary_data:
        findings.complaint(f"binaryData[{key}]", names.config_key(key))
    size = sum(len(text.encode()) for text in config_map.data.values())
    _check_size(findings, size + sum(len(blob) for blob in config_map.binary_data.values()))


def check_secret(findings: Findings, secret: core.Secret) -> None:
    """Check a Secret of a manifest, ``stringData`` merged; messages never show a value."""
    check_metadata(findings, secret.metadata)
    for key in secret.data:
        findings.complaint(f"data[{key}]", names.config_key(key))
    _check_size(findings, sum(len(blob) for blob in secret.data.values()))
    for key in _REQUIRED_KEYS.get(secret.type, ()):
        if key not in secret.data:
            findings.add(f"data[{key}]", f"is required for a secret of type {secret.type}")
        elif "docker" in secret.type and not _is_json_object(secret.data[key]):
            findings.add(f"data[{key}]", "is not a JSON object", "encode the content of docker's config.json")
    if secret.type == "kubernetes.io/basic-auth" and not {"username", "password"} & secret.data.keys():
        findings.add("data", "needs username or password for a secret of type kubernetes.io/basic-auth")


def _check_size(findings: Findings, size: int) -> None:
    if size > MAX_DATA_BYTES:
        findings.add("data", f"holds {size} bytes, {MAX_DATA_BYTES} are possible", "use a volume for large files")


def _is_json_object(data: bytes) -> bool:
    try:
        return isinstance(read_json(data), dict)
    except Invalid:
        return False
