"""Lays the specification of a container over a handler's own base (``base_runtime_spec``). Pure.

From the base come the fields that a CRI request does not describe: rlimits, hooks, further mounts, devices,
environment variables, annotations, sysctls. What the request decides (program, user, capabilities, namespaces, seccomp,
masked paths, …) is never taken from it.
"""

from collections.abc import Mapping

from pykubelet.base.errors import Invalid
from pykubelet.base.units import MIB
from pykubelet.criserver.spec.mounts import BELOW_OTHERS
from pykubelet.criserver.spec.spec_types import Json

_OF_REQUEST = {
    "": {"root", "hostname", "domainname", "ociVersion"},
    "process": {
        "terminal",
        "consoleSize",
        "user",
        "args",
        "commandLine",
        "cwd",
        "capabilities",
        "noNewPrivileges",
        "oomScoreAdj",
        "apparmorProfile",
        "selinuxLabel",
    },
    "linux": {
        "namespaces",
        "uidMappings",
        "gidMappings",
        "cgroupsPath",
        "seccomp",
        "maskedPaths",
        "readonlyPaths",
        "mountLabel",
        "rootfsPropagation",
    },
}
"""Fields that only the request decides, by the object that has them."""
LONGEST = MIB
"""The size of a file with a base that is read."""
_OBJECTS = ("process", "linux", "annotations", "hooks")


def check_base(document: object, origin: str) -> Json:
    """Return the base if its objects and lists have the types that ``over_base`` needs, else raise Invalid."""
    if not isinstance(document, dict):
        raise Invalid(f"{origin}: must be one JSON object, an OCI runtime specification")
    process, linux = document.get("process", {}), document.get("linux", {})
    for name in _OBJECTS:
        if not isinstance(document.get(name, {}), dict):
            raise Invalid(f"{origin}: {name} must be an object")
    if not isinstance(linux.get("resources", {}), dict):
        raise Invalid(f"{origin}: linux.resources must be an object")
    resources = linux.get("resources", {})
    for name, value, key in (
        ("mounts", document.get("mounts", []), "destination"),
        ("linux.devices", linux.get("devices", []), "path"),
        ("linux.resources.devices", resources.get("devices", []), "allow"),
    ):
        if not isinstance(value, list) or not all(isinstance(each, dict) and key in each for each in value):
            raise Invalid(f"{origin}: {name} must be a list of objects with {key}")
    env = process.get("env", [])
    if not isinstance(env, list) or not all(isinstance(each, str) for each in env):
        raise Invalid(f"{origin}: process.env must be a list of texts")
    return document


def over_base(base: Json, spec: Json) -> Json:
    """Return the spec with what the base has in addition."""
    merged = _merged(_without(base, ""), spec)
    for name in ("process", "linux"):
        merged[name] = _merged(_without(_object(base.get(name)), name), _object(spec[name]))
    of_base, process, linux = _object(base.get("process")), _object(merged["process"]), _object(merged["linux"])
    process["env"] = _environment(of_base.get("env"), process["env"])
    merged["mounts"] = _mounts(_list(base.get("mounts")), _list(spec["mounts"]))
    base_linux, own_linux = _object(base.get("linux")), _object(spec["linux"])
    base_resources, own_resources = _object(base_linux.get("resources")), _object(own_linux["resources"])
    resources = _merged(base_resources, own_resources)
    if "pids" in base_resources:
        resources["pids"] = base_resources["pids"]  # a request has no limit of processes
    rules = _list(own_resources["devices"])
    # The first rule denies all, or allows all; later ones take precedence.
    further = [each for each in _list(base_resources.get("devices")) if _object(each)["allow"]]
    resources["devices"] = rules if _object(rules[0])["allow"] else [*rules[:1], *further, *rules[1:]]
    linux["resources"] = resources
    own_devices = _list(own_linux["devices"])
    paths = {_object(each)["path"] for each in own_devices}
    linux["devices"] = [
        *(each for each in _list(base_linux.get("devices")) if _object(each)["path"] not in paths),
        *own_devices,
    ]
    return merged


def _without(of: Json, where: str) -> Json:
    return {key: value for key, value in of.items() if key not in _OF_REQUEST[where]}


def _merged(base: Mapping[str, object], own: Mapping[str, object]) -> Json:
    """Merge objects, and the objects in them; other values of the spec replace those of the base."""
    merged: Json = {**base, **own}
    for key, value in own.items():
        below = base.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            merged[key] = {**below, **value}
    return merged


def _environment(base: object, own: object) -> list[object]:
    names = {str(each).partition("=")[0] for each in _list(own)}
    return [*(each for each in _list(base) if str(each).partition("=")[0] not in names), *_list(own)]


def _mounts(base: list[object], own: list[object]) -> list[object]:
    """Insert the further mounts of the base before the first one that is deeper than each."""
    known = {*BELOW_OTHERS, *(_object(each)["destination"] for each in own)}
    found = [each for each in base if _object(each)["destination"] not in known]
    return [*found, *own] if not found else sorted([*found, *own], key=_depth)


def _depth(mount: object) -> int:
    destination = str(_object(mount)["destination"]).rstrip("/")
    return destination.count("/")


def _object(value: object) -> Json:
    assert value is None or isinstance(value, dict), "checked, or our own spec"
    return value or {}


def _list(value: object) -> list[object]:
    assert value is None or isinstance(value, list), "checked, or our own spec"
    return value or []
