"""Rules for the volumes of a pod."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.desired.manifest.validate import names
from pykubelet.kubelet.desired.manifest.validate.findings import Findings
from pykubelet.kubelet.desired.manifest.validate.resources import check_resource_field
from pykubelet.models import core_v1 as core
from pykubelet.models import quantity

_HOST_PATH_TYPES: Final = (
    "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice",
)  # fmt: skip
_VOLUME_FIELD_PATHS: Final = (
    "metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations",
)  # fmt: skip
_SOURCES: Final[Mapping[str, str]] = {
    info.name: info.encode_name for info in msgspec.structs.fields(core.Volume) if info.name != "name"
}
_PROJECTIONS: Final[Mapping[str, str]] = {
    info.name: info.encode_name for info in msgspec.structs.fields(core.VolumeProjection)
}
_COMMON: Final = ("emptyDir", "hostPath", "configMap", "secret", "downwardAPI", "projected")
# Volume types that need an API server, and their replacements in manifests.
_CLUSTER_ONLY: Final[Mapping[str, str]] = {
    "persistentVolumeClaim": "mount a hostPath or an emptyDir",
    "ephemeral": "mount an emptyDir",
    "serviceAccountToken": "use a Secret of the manifest directory",
    "clusterTrustBundle": "use a ConfigMap of the manifest directory",
    "podCertificate": "use a Secret of the manifest directory",
}


def check_volumes(findings: Findings, volumes: Iterable[core.Volume]) -> None:
    """Check all volumes of a pod: names, one source each, and each source's own rules."""
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        path = f"spec.volumes[{index}]"
        if findings.required(f"{path}.name", volume.name):
            findings.complaint(f"{path}.name", names.dns_label(volume.name))
            if volume.name in seen:
                findings.add(f"{path}.name", f"the name {volume.name!r} is given twice", "rename one of the volumes")
            seen.add(volume.name)
        given = [field for attribute, field in _SOURCES.items() if getattr(volume, attribute) is not None]
        if findings.exactly_one(path, given, _COMMON, "volume source"):
            _check_source(findings, volume, given[0], f"{path}.{given[0]}")


def _check_source(findings: Findings, volume: core.Volume, field: str, path: str) -> None:
    if field in _CLUSTER_ONLY:
        findings.add(path, "needs an API server, which a static pod does not use", _CLUSTER_ONLY[field])
    elif volume.git_repo is not None:
        findings.add(path, "gitRepo volumes run foreign code as root (CVE-2024-10220) and are refused",
                     "clone in an init container into an emptyDir")  # fmt: skip
    elif volume.empty_dir is not None:
        _check_empty_dir(findings, volume.empty_dir, path)
    elif volume.host_path is not None:
        if findings.required(f"{path}.path", volume.host_path.path):
            findings.complaint(f"{path}.path", names.no_steps_back(volume.host_path.path))
        findings.one_of(f"{path}.type", volume.host_path.type, _HOST_PATH_TYPES)
    elif volume.config_map is not None:
        _check_keyed(findings, volume.config_map.name, volume.config_map.items, path, "name")
        findings.file_mode(f"{path}.defaultMode", volume.config_map.default_mode)
    elif volume.secret is not None:
        _check_keyed(findings, volume.secret.secret_name, volume.secret.items, path, "secretName")
        findings.file_mode(f"{path}.defaultMode", volume.secret.default_mode)
    elif volume.downward_api is not None:
        _check_downward(findings, volume.downward_api.items, path)
        findings.file_mode(f"{path}.defaultMode", volume.downward_api.default_mode)
    elif volume.projected is not None:
        _check_projected(findings, volume.projected, path)
    elif volume.nfs is not None:
        findings.required(f"{path}.server", volume.nfs.server)
        if findings.required(f"{path}.path", volume.nfs.path) and not volume.nfs.path.startswith("/"):
            findings.add(f"{path}.path", f"{volume.nfs.path!r} is not absolute", "begin it with '/'")
    elif volume.image is not None:
        findings.required(f"{path}.reference", volume.image.reference)
        findings.one_of(f"{path}.pullPolicy", volume.image.pull_policy, ("Always", "IfNotPresent", "Never"))
    elif volume.csi is not None:
        findings.required(f"{path}.driver", volume.csi.driver)


def _check_empty_dir(findings: Findings, source: core.EmptyDirVolumeSource, path: str) -> None:
    if source.medium not in ("", "Memory") and not source.medium.startswith("HugePages"):
        findings.one_of(f"{path}.medium", source.medium, ("Memory", "HugePages"))
    if source.size_limit is None:
        return
    try:
        amount = quantity.parse(source.size_limit)
    except Invalid as error:
        findings.add(f"{path}.sizeLimit", str(error))
        return
    if amount.nano < 0:
        findings.add(f"{path}.sizeLimit", f"is {source.size_limit}, but must not be negative")


def _check_keyed(
    findings: Findings, name: str, items: Iterable[core.KeyToPath], path: str, name_field: str
) -> list[str]:
    """Check a reference to a ConfigMap or Secret; return the paths of the files of its ``items``."""
    if findings.required(f"{path}.{name_field}", name):
        findings.complaint(f"{path}.{name_field}", names.dns_subdomain(name))
    made = []
    for index, item in enumerate(items):
        where = f"{path}.items[{index}]"
        if findings.required(f"{where}.key", item.key):
            findings.complaint(f"{where}.key", names.config_key(item.key))
        made.append(_check_file(findings, item.path, item.mode, where))
    return made


def _check_file(findings: Findings, file: str, mode: int | None, path: str) -> str:
    if findings.required(f"{path}.path", file):
        findings.complaint(f"{path}.path", names.file_path(file))
    findings.file_mode(f"{path}.mode", mode)
    return file


def _check_downward(findings: Findings, items: Iterable[core.DownwardAPIVolumeFile], path: str) -> list[str]:
    made = []
    for index, item in enumerate(items):
        where = f"{path}.items[{index}]"
        made.append(_check_file(findings, item.path, item.mode, where))
        given = [
            field
            for field, value in (("fieldRef", item.field_ref), ("resourceFieldRef", item.resource_field_ref))
            if value is not None
        ]
        if not findings.exactly_one(where, given, ("fieldRef", "resourceFieldRef"), "source"):
            continue
        if item.field_ref is not None:
            check_field_ref(findings, item.field_ref, f"{where}.fieldRef", _VOLUME_FIELD_PATHS)
        elif item.resource_field_ref is not None:
            check_resource_field(findings, item.resource_field_ref, f"{where}.resourceFieldRef", in_volume=True)
    return made


def check_field_ref(findings: Findings, reference: core.ObjectFieldSelector, path: str, allowed: Iterable[str]) -> None:
    """Check a downward API reference to a field of the pod; one label or annotation is always possible."""
    field = f"{path}.fieldPath"
    if not findings.required(field, reference.field_path):
        return
    base, bracket, rest = reference.field_path.partition("[")
    if not bracket:
        findings.one_of(field, base, tuple(allowed))
        return
    key = rest.removesuffix("]").strip("'\"")
    if base not in ("metadata.labels", "metadata.annotations") or not rest.endswith("]"):
        findings.add(field, f"{reference.field_path!r} is not possible here", "write metadata.labels['KEY']")
    else:
        findings.complaint(field, names.qualified_name(key.lower() if base == "metadata.annotations" else key))


def _check_projected(findings: Findings, source: core.ProjectedVolumeSource, path: str) -> None:
    findings.file_mode(f"{path}.defaultMode", source.default_mode)
    taken: set[str] = set()
    for index, projection in enumerate(source.sources):
        where = f"{path}.sources[{index}]"
        given = [field for attribute, field in _PROJECTIONS.items() if getattr(projection, attribute) is not None]
        if not findings.exactly_one(where, given, ("configMap", "secret", "downwardAPI"), "source"):
            continue
        where += f".{given[0]}"
        made: list[str] = []
        if given[0] in _CLUSTER_ONLY:
            findings.add(where, "needs an API server, which a static pod does not use", _CLUSTER_ONLY[given[0]])
        elif projection.config_map is not None:
            made = _check_keyed(findings, projection.config_map.name, projection.config_map.items, where, "name")
        elif projection.secret is not None:
            made = _check_keyed(findings, projection.secret.name, projection.secret.items, where, "name")
        elif projection.downward_api is not None:
            made = _check_downward(findings, projection.downward_api.items, where)
        for item, file in enumerate(made):
            if file and file in taken:
                findings.add(f"{where}.items[{item}].path", f"the path {file!r} is given twice", "change one of them")
            taken.add(file)
