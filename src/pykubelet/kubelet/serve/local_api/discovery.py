"""Discovery documents of the local API for kubectl: only what is really served. Pure."""

from typing import Final

from pykubelet.models.meta_v1 import APIGroupList, APIResource, APIResourceList

API_VERSIONS: Final[dict[str, object]] = {
    "kind": "APIVersions",
    "versions": ["v1"],
    "serverAddressByClientCIDRs": [],
}
API_GROUPS: Final = APIGroupList(api_version="v1", kind="APIGroupList")
_READ: Final = ("get", "list", "watch")
_NO_WATCH: Final = ("get", "list")
CORE_RESOURCES: Final = APIResourceList(
    api_version="v1",
    kind="APIResourceList",
    group_version="v1",
    resources=(
        APIResource(name="pods", singular_name="pod", namespaced=True, kind="Pod", verbs=_READ, short_names=("po",)),
        APIResource(name="pods/log", namespaced=True, kind="Pod", verbs=("get",)),
        APIResource(name="pods/exec", namespaced=True, kind="PodExecOptions", verbs=("create", "get")),
        APIResource(name="pods/attach", namespaced=True, kind="PodAttachOptions", verbs=("create", "get")),
        APIResource(
            name="events", singular_name="event", namespaced=True, kind="Event", verbs=_READ, short_names=("ev",)
        ),
        APIResource(
            name="nodes", singular_name="node", namespaced=False, kind="Node", verbs=_NO_WATCH, short_names=("no",)
        ),
        APIResource(
            name="configmaps",
            singular_name="configmap",
            namespaced=True,
            kind="ConfigMap",
            verbs=_NO_WATCH,
            short_names=("cm",),
        ),
        APIResource(name="secrets", singular_name="secret", namespaced=True, kind="Secret", verbs=_NO_WATCH),
    ),
)


def version_info(git_version: str) -> dict[str, str]:
    """Return the answer of ``/version``; ``git_version`` is like ``v1.36.0``."""
    major, minor, *_ = (*git_version.removeprefix("v").split("."), "", "")
    return {"major": major, "minor": minor, "gitVersion": git_version, "platform": "linux"}
