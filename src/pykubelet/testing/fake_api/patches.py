"""Patches on plain JSON values, as the API server applies them: merge (RFC 7386) and strategic merge. Pure."""

from copy import deepcopy
from typing import Any

Json = dict[str, Any]

_MERGE_KEYS = {
    "conditions": "type",
    "podIPs": "ip",
    "hostIPs": "ip",
    "addresses": "type",
    "containers": "name",
    "volumes": "name",
    "env": "name",
    "ownerReferences": "uid",
    "taints": "key",
    "imagePullSecrets": "name",
    "secrets": "name",
}


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply a merge patch: returns the target with the patch merged in; null removes a field."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def strategic_patch(target: Any, patch: Any) -> Any:
    """Apply a strategic merge patch: lists with a merge key are merged by that key."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    if patch.get("$patch") == "replace":
        return {key: deepcopy(value) for key, value in patch.items() if key != "$patch"}
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            result.pop(key, None)
        elif isinstance(value, list) and key in _MERGE_KEYS and isinstance(result.get(key), list):
            result[key] = _merged(result[key], value, _MERGE_KEYS[key])
        else:
            # If there is no list to merge with, directives are kept as elements, as kube-apiserver does.
            result[key] = strategic_patch(result.get(key), value)
    return result


def _merged(old: list[Json], new: list[Json], name: str) -> list[Json]:
    if any(set(each) == {"$patch"} and each["$patch"] == "replace" for each in new):
        return [deepcopy(each) for each in new if "$patch" not in each]
    result = [dict(each) for each in old]
    for each in new:
        index = next((i for i, known in enumerate(result) if known.get(name) == each.get(name)), None)
        if each.get("$patch") == "delete":
            if index is not None:
                del result[index]
        elif index is None:
            result.append(strategic_patch({}, each))
        else:
            result[index] = strategic_patch(result[index], each)
    return result
