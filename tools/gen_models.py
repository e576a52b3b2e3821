"""Write the typed Kubernetes objects in ``src/pykubelet/models/*_v1*.py`` from an OpenAPI v2 document.

    python tools/gen_models.py kubernetes-openapi-v2.json[.xz] [--release 1.36] [--out DIR] [--check]

Only facts of the wire format are used: names, types and which fields are required; descriptions are not. One
module per API group and version holds the definitions reachable from ``ROOTS``, dependencies first, so that
the modules need no forward references and import fast. ``--check`` writes nothing and fails when a module
differs.

How a type becomes Python: see ``Generator.field``. In short, Go's zero values are the defaults (an empty
string, tuple or dict is the same as an absent one), except where the difference has a meaning: numbers,
booleans, nested objects, and the strings in ``NULLABLE_STRINGS``.
"""

import argparse
import json
import keyword
import lzma
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

Schema = TypedDict(
    "Schema",
    {
        "$ref": str,
        "type": str,
        "format": str,
        "items": "Schema",
        "additionalProperties": "Schema",
        "properties": dict[str, "Schema"],
        "required": list[str],
        "x-kubernetes-group-version-kind": list[dict[str, str]],
    },
    total=False,
)

DEFAULT_OUT = Path(__file__).resolve().parent.parent / "src" / "pykubelet" / "models"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"

MODULES: Mapping[str, str] = {
    "meta_v1": META,
    "core_v1": "io.k8s.api.core.v1",
    "authentication_v1": "io.k8s.api.authentication.v1",
    "authorization_v1": "io.k8s.api.authorization.v1",
    "certificates_v1": "io.k8s.api.certificates.v1",
    "certificates_v1beta1": "io.k8s.api.certificates.v1beta1",
    "coordination_v1": "io.k8s.api.coordination.v1",
    "events_v1": "io.k8s.api.events.v1",
    "node_v1": "io.k8s.api.node.v1",
    "resource_v1": "io.k8s.api.resource.v1",
    "storage_v1": "io.k8s.api.storage.v1",
}

# The objects that a node agent reads or writes; everything they refer to is included.
ROOTS: Mapping[str, Sequence[str]] = {
    "meta_v1": ("Status", "DeleteOptions", "APIGroupList", "APIResourceList", "Condition"),
    "core_v1": (
        "Binding", "ConfigMap", "ConfigMapList", "Event", "EventList", "Namespace", "NamespaceList", "Node",
        "NodeList", "PersistentVolume", "PersistentVolumeClaim", "PersistentVolumeClaimList",
        "PersistentVolumeList", "Pod", "PodList", "PodTemplate", "Secret", "SecretList", "Service",
        "ServiceAccount", "ServiceAccountList", "ServiceList",
    ),
    "authentication_v1": ("TokenRequest", "TokenReview"),
    "authorization_v1": ("SelfSubjectAccessReview", "SubjectAccessReview"),
    "certificates_v1": ("CertificateSigningRequest", "CertificateSigningRequestList"),
    "certificates_v1beta1": (
        "ClusterTrustBundle", "ClusterTrustBundleList", "PodCertificateRequest", "PodCertificateRequestList",
    ),
    "coordination_v1": ("Lease", "LeaseList"),
    "events_v1": ("Event", "EventList"),
    "node_v1": ("RuntimeClass", "RuntimeClassList"),
    "resource_v1": (
        "DeviceClass", "ResourceClaim", "ResourceClaimList", "ResourceSlice", "ResourceSliceList",
    ),
    "storage_v1": (
        "CSIDriver", "CSIDriverList", "CSINode", "CSINodeList", "StorageClass", "StorageClassList",
        "VolumeAttachment", "VolumeAttachmentList",
    ),
}  # fmt: skip

# Strings where "not given" and "given as empty" mean different things, and what the difference is.
NULLABLE_STRINGS: Mapping[str, str] = {
    "core_v1.SeccompProfile.localhostProfile": "empty must be refused, not taken as unset (CVE-2023-2431)",
    "core_v1.AppArmorProfile.localhostProfile": "as for seccomp",
    "core_v1.PodSpec.runtimeClassName": "empty is an invalid name",
    "core_v1.PodSpec.hostnameOverride": "empty is an invalid name",
    "core_v1.PersistentVolumeClaimSpec.storageClassName": "empty: no provisioning; unset: the default class",
    "core_v1.PersistentVolumeClaimSpec.volumeAttributesClassName": "empty takes an existing class away",
    "core_v1.PersistentVolumeClaimStatus.currentVolumeAttributesClassName": "as in the spec",
    "core_v1.PersistentVolumeSpec.volumeAttributesClassName": "as in the claim",
    "core_v1.TypedLocalObjectReference.apiGroup": "empty is the core group",
    "core_v1.TypedObjectReference.apiGroup": "empty is the core group",
    "core_v1.TypedObjectReference.namespace": "empty is invalid, unset is the same namespace",
    "core_v1.ClusterTrustBundleProjection.name": "which of name and signerName is given selects the lookup",
    "core_v1.ClusterTrustBundleProjection.signerName": "see name",
    "core_v1.PodResourceClaim.resourceClaimName": "which of the two names is given selects the source",
    "core_v1.PodResourceClaim.resourceClaimTemplateName": "see resourceClaimName",
    "core_v1.PodResourceClaimStatus.resourceClaimName": "unset: no claim is needed",
    "resource_v1.DeviceAttribute.string": "one of several: an empty string is a value",
    "resource_v1.DeviceAttribute.version": "as string",
}

LINE_LENGTH = 120  # of the project's formatter, so that it does not change the modules
SCALARS = "pykubelet.models.scalars"
LEAVES: Mapping[str, str] = {
    f"{META}.Time": "Time",
    f"{META}.MicroTime": "MicroTime",
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "Quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "IntOrString",
    f"{META}.FieldsV1": "RawObject",
    # Any author of an object writes them; they are not used, so none of them may make its object unreadable.
    f"{META}.ManagedFieldsEntry": "RawObject",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "RawObject",
}
TYPE_NAMES = frozenset({"bool", "bytes", "dict", "float", "int", "str", "tuple"})
_WORD = re.compile(r"[A-Z]+s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def snake_case(name: str) -> str:
    """The attribute name of a JSON name: podIPs → pod_ips, setHostnameAsFQDN → set_hostname_as_fqdn."""
    snake = ""
    for match in _WORD.finditer(name):
        word = match.group().lower()
        snake += word if word.isdigit() or not snake else f"_{word}"
    return f"{snake}_" if keyword.iskeyword(snake) or snake in TYPE_NAMES else snake


def camel_case(attribute: str) -> str:
    """The JSON name that msgspec's rename="camel" derives from an attribute name."""
    first, *rest = attribute.rstrip("_").split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


@dataclass(slots=True)
class Module:
    """One generated module under construction."""

    name: str
    prefix: str
    classes: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    group_version: str = ""
    imports: dict[str, set[str]] = field(default_factory=dict)
    uses_msgspec: bool = False

    def use(self, module: str, name: str) -> str:
        self.imports.setdefault(module, set()).add(name)
        return name


class Generator:
    """Turns the definitions reachable from the roots into module texts."""

    def __init__(self, definitions: Mapping[str, Schema], release: str) -> None:
        self.definitions = definitions
        self.release = release
        self.modules = {name: Module(name, prefix) for name, prefix in MODULES.items()}
        self.done: dict[str, bool] = {}
        self.nullable_left = set(NULLABLE_STRINGS)

    def run(self) -> dict[str, str]:
        """Generate all modules; returns their texts by file name."""
        for module, roots in ROOTS.items():
            for root in roots:
                self.define(f"{MODULES[module]}.{root}")
        if self.nullable_left:
            raise SystemExit(f"NULLABLE_STRINGS names fields that do not exist: {sorted(self.nullable_left)}")
        return {f"{module.name}.py": self.render(module) for module in self.modules.values()}

    def locate(self, full_name: str) -> tuple[Module, str]:
        prefix, _, name = full_name.rpartition(".")
        for module in self.modules.values():
            if module.prefix == prefix:
                return module, name
        raise SystemExit(f"{full_name} is needed, but its group is not in MODULES")

    def define(self, full_name: str) -> bool:
        """Write the class once, after those it refers to; returns whether it can be constructed without arguments."""
        if full_name in self.done:
            return self.done[full_name]
        schema = self.definitions.get(full_name)
        if schema is None:
            raise SystemExit(f"the document has no definition {full_name}")
        module, name = self.locate(full_name)
        self.done[full_name] = False  # a class that contains itself cannot be its own default
        module.use(SCALARS, "KubeStruct")
        lines = [f"class {name}(KubeStruct, frozen=True, kw_only=True):"]
        constructible = True
        for json_name in sorted(schema.get("properties", {}), key=_type_meta_first):
            line, has_default = self.field(module, name, json_name, schema)
            constructible = constructible and has_default
            lines.append(f"    {line}")
        if len(lines) == 1:
            lines.append("    pass")
        if _is_kind(schema) and len(gvks := schema["x-kubernetes-group-version-kind"]) == 1:
            group, version = gvks[0]["group"], gvks[0]["version"]
            module.group_version = f"{group}/{version}" if group else version
            module.kinds.append(name)
        module.classes.append(name)
        module.bodies.append("\n".join(lines))
        self.done[full_name] = constructible
        return constructible

    def field(self, module: Module, owner: str, json_name: str, schema: Schema) -> tuple[str, bool]:
        """One attribute line, and whether it has a default."""
        prop = schema["properties"][json_name]
        required = json_name in schema.get("required", ())
        type_name = self.type_of(module, prop)
        default = self.default_of(type_name, prop, required, _defaults_to_object(owner, json_name, schema))
        key = f"{module.name}.{owner}.{json_name}"
        if key in NULLABLE_STRINGS:
            self.nullable_left.discard(key)
            if type_name != "str":
                raise SystemExit(f"NULLABLE_STRINGS: {key} is no string but {type_name}")
            default = "None"
        if default == "None":
            type_name += " | None"
        attribute = snake_case(json_name)
        renamed = camel_case(attribute) != json_name
        line = f"{attribute}: {type_name}"
        if renamed:
            module.uses_msgspec = True
            given = {"": "", "{}": "default_factory=dict, "}.get(default, f"default={default}, ")
            arguments = f"{given}name={json.dumps(json_name)}"
            line += f" = msgspec.field({arguments})"
            if len(line) > LINE_LENGTH - 4:
                line = f"{attribute}: {type_name} = msgspec.field(\n        {arguments}\n    )"
        elif default:
            line += f" = {default}"
        return line, bool(default)

    def default_of(self, type_name: str, prop: Schema, required: bool, object_default: bool) -> str:
        """The default as source text; empty for none."""
        if type_name == "str":
            return '""'
        if type_name == "bytes":
            return 'b""'
        if type_name.startswith("tuple["):
            return "()"
        if type_name.startswith("dict["):
            return "{}"
        ref = _ref(prop)
        if ref and ref not in LEAVES:
            if self.define(ref) and (required or object_default):
                return f"{type_name}()"
            return "" if required else "None"
        # Times are null in objects under construction, even if the document calls them required.
        return "" if required and type_name not in ("Time", "MicroTime") else "None"

    def type_of(self, module: Module, schema: Schema) -> str:
        if ref := _ref(schema):
            if ref in LEAVES:
                return module.use(SCALARS, LEAVES[ref])
            self.define(ref)
            home, name = self.locate(ref)
            return name if home is module else home_name(module, home, name)
        match schema.get("type"), schema.get("format"):
            case "string", "byte":
                return "bytes"
            case "string", "date-time":
                return module.use(SCALARS, "Time")
            case "string", "int-or-string":
                return module.use(SCALARS, "IntOrString")
            case "string", _:
                return "str"
            case "integer", _:
                return "int"
            case "number", _:
                return "float"
            case "boolean", _:
                return "bool"
            case "array", _:
                return f"tuple[{self.type_of(module, schema['items'])}, ...]"
            case "object", _ if "additionalProperties" in schema:
                return f"dict[str, {self.type_of(module, schema['additionalProperties'])}]"
        raise SystemExit(f"no rule for the schema {schema!r}")

    def render(self, module: Module) -> str:
        names = set(module.classes)
        for other, used in module.imports.items():
            if clash := names & used:
                raise SystemExit(f"{module.name} defines and imports from {other}: {sorted(clash)}")
            names |= used
        group = module.prefix.removeprefix("io.k8s.api.").removeprefix("io.k8s.apimachinery.pkg.apis.")
        mutable = any("] = {}" in body for body in module.bodies)
        head = [
            *(["# ruff: noqa: RUF012 - msgspec makes a new dict for each object"] if mutable else []),
            f'"""Kubernetes {self.release} objects of {group.replace(".", "/")}: names and types.',
            "",
            "Generated by tools/gen_models.py from the OpenAPI document; do not edit.",
            '"""',
            "",
            "from typing import Final",
            "",
            *(["import msgspec", ""] if module.uses_msgspec else []),
        ]
        for other in sorted(module.imports):
            head.extend(_import(other, sorted(module.imports[other], key=_isort_key)))
        tail = [
            f'API_VERSION: Final = "{module.group_version}"',
            "",
            "# Kinds that stand alone in this group.",
            "KINDS: Final[dict[str, type[KubeStruct]]] = {",
            *(f'    "{kind}": {kind},' for kind in sorted(module.kinds)),
            "}",
        ]
        return "\n".join(head) + "\n\n\n" + "\n\n\n".join([*module.bodies, "\n".join(tail)]) + "\n"


def home_name(module: Module, home: Module, name: str) -> str:
    """Import a class of another generated module."""
    return module.use(f"pykubelet.models.{home.name}", name)


def _ref(schema: Schema) -> str:
    return schema.get("$ref", "").removeprefix("#/definitions/")


def _type_meta_first(json_name: str) -> tuple[int, str]:
    order = {"apiVersion": 0, "kind": 1, "metadata": 2}
    return order.get(json_name, 3), json_name


def _is_kind(schema: Schema) -> bool:
    return bool(schema.get("x-kubernetes-group-version-kind")) and "kind" in schema.get("properties", {})


def _defaults_to_object(owner: str, json_name: str, schema: Schema) -> bool:
    """Whether the field is metadata, spec or status of a whole object: never None, so that readers need no checks."""
    return json_name in ("metadata", "spec", "status") and (_is_kind(schema) or owner.endswith("TemplateSpec"))


def _isort_key(name: str) -> tuple[int, str]:
    return (0 if name.isupper() else 1, name)


def _import(module: str, names: Sequence[str]) -> Iterator[str]:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= LINE_LENGTH:
        yield line
        return
    yield f"from {module} import ("
    yield from (f"    {name}," for name in names)
    yield ")"


def load(path: Path) -> Mapping[str, Schema]:
    """The definitions of an OpenAPI v2 document, plain or xz-packed."""
    data = path.read_bytes()
    if path.suffix == ".xz":
        data = lzma.decompress(data)
    definitions: Mapping[str, Schema] = json.loads(data)["definitions"]
    return definitions


def _read(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="generate pykubelet.models from an OpenAPI v2 document")
    parser.add_argument("document", type=Path, help="the document, .json or .json.xz")
    parser.add_argument("--release", default="1.36", help="the Kubernetes release to name in the files")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="where the modules go")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a module is not up to date")
    options = parser.parse_args(argv)
    texts = Generator(load(options.document), options.release).run()
    stale = [name for name, text in texts.items() if _read(options.out / name) != text]
    if options.check:
        for name in stale:
            print(f"{options.out / name} is not up to date: run tools/gen_models.py", file=sys.stderr)
        return 1 if stale else 0
    options.out.mkdir(parents=True, exist_ok=True)
    for name in stale:
        (options.out / name).write_text(texts[name])
        print(f"wrote {options.out / name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
