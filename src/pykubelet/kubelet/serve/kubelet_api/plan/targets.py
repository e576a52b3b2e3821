"""Pods, containers and options that a request names. Pure."""

from collections.abc import Mapping, Sequence

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.kubelet.serve.common.plan.query import boolean
from pykubelet.kubelet.serve.logs.plan.log_choice import container_status
from pykubelet.kubelet.serve.streams.stream_types import StreamOptions
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.kubelet.types.podspec import find_container
from pykubelet.models.core_v1 import Pod


def check_container(pod: Pod, name: str) -> None:
    """Check that the pod has a container of that name, of any kind. NotFound: it has none."""
    if find_container(pod, name) is None:
        raise NotFound(f'container "{name}" not found in pod "{pod.metadata.name}"')


def running_container(pod: Pod, name: str) -> ContainerID:
    """Return the id of a running container. NotFound, with the Go kubelet's message: it does not run."""
    check_container(pod, name)
    status = container_status(pod, name)
    if status is None or status.state is None or status.state.running is None:
        raise NotFound(f"container not found ({name!r})".replace("'", '"'))
    return ContainerID(status.container_id.partition("://")[2])


def command_options(query: Mapping[str, str], container: str, command: Sequence[str] | None) -> StreamOptions:
    """Return the options of exec (with a command) or attach (None), by the API server's parameter names here."""
    tty = boolean(query, "tty")
    options = StreamOptions(
        container=container,
        command=tuple(command or ()),
        stdin=boolean(query, "input"),
        stdout=boolean(query, "output"),
        stderr=boolean(query, "error") and not tty,
        tty=tty,
    )
    if command is not None and not options.command:
        raise Invalid("command: missing; pass the command as one parameter for each word")
    if not (options.stdin or options.stdout or options.stderr):
        raise Invalid("you must specify at least 1 of stdin, stdout, stderr")
    return options
