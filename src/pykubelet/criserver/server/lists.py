"""Lists of sandboxes and containers, and their filters.

Agents list everything every few seconds, and hardly anything changes in between. So sandboxes and containers keep their
entry as the bytes of a list with one element until their record changes: the bytes of such lists, one after the other,
are the list of them all (protobuf appends repeated fields). Joining them takes a small part of the time of building all
entries.
"""

from collections.abc import Callable, Iterable, Mapping

from pykubelet.criserver.container import Container
from pykubelet.criserver.sandbox import Sandbox
from pykubelet.criserver.server.view import container_state, container_summary, sandbox_state, sandbox_summary
from pykubelet.pb import runtime_v1_pb2 as pb

_KEPT_BYTES = 4096
"""Longer entries (of large annotations) are not kept."""


def sandbox_list(sandboxes: Iterable[Sandbox]) -> pb.ListPodSandboxResponse:
    """Convert sandboxes to a list."""
    return pb.ListPodSandboxResponse.FromString(b"".join(map(_sandbox_entry, sandboxes)))


def _sandbox_entry(sandbox: Sandbox) -> bytes:
    entry = sandbox.list_entry
    if not entry:
        entry = pb.ListPodSandboxResponse(items=[sandbox_summary(sandbox)]).SerializeToString()
        if len(entry) <= _KEPT_BYTES:
            sandbox.list_entry = entry
    return entry


def container_list(containers: Iterable[Container]) -> pb.ListContainersResponse:
    """Convert containers to a list."""
    return pb.ListContainersResponse.FromString(b"".join(map(_container_entry, containers)))


def _container_entry(container: Container) -> bytes:
    entry = container.list_entry
    if not entry:
        entry = pb.ListContainersResponse(containers=[container_summary(container)]).SerializeToString()
        if len(entry) <= _KEPT_BYTES:
            container.list_entry = entry
    return entry


def labels_match(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Whether an object has all labels of the selector; a dict is the quickest selector."""
    return all(labels.get(name) == value for name, value in selector.items())


def sandbox_filter(wanted: pb.PodSandboxFilter) -> Callable[[Sandbox], bool]:
    """The check whether a sandbox matches a filter; ids may be prefixes."""
    id_start, selector = wanted.id, dict(wanted.label_selector)
    state = wanted.state.state if wanted.HasField("state") else None

    def matches(sandbox: Sandbox) -> bool:
        return (
            sandbox.id.startswith(id_start)
            and (state is None or state == sandbox_state(sandbox))
            and labels_match(sandbox.config.labels, selector)
        )

    return matches


def container_filter(wanted: pb.ContainerFilter) -> Callable[[Container], bool]:
    """The check whether a container matches a filter; ids may be prefixes."""
    id_start, sandbox_start, selector = wanted.id, wanted.pod_sandbox_id, dict(wanted.label_selector)
    state = wanted.state.state if wanted.HasField("state") else None

    def matches(container: Container) -> bool:
        return (
            container.id.startswith(id_start)
            and container.record.sandbox_id.startswith(sandbox_start)
            and (state is None or state == container_state(container))
            and labels_match(container.config.labels, selector)
        )

    return matches
