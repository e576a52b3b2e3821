"""Helpers that build manifests for pods of busybox, for the tests on a real node.

Values are plain JSON, as users write them; a test gives only the fields that it is about.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

BUSYBOX = "localhost/pykubelet/busybox:1"
Json = dict[str, Any]
Apply = Callable[..., None]
"""The fixture of that name: a function of a file's name and its documents."""


def serving(script: str = "", *, status: int = 0) -> list[str]:
    """A command that runs the script, then waits, and exits at once on SIGTERM, with this status."""
    return ["sh", "-c", f"trap 'exit {status}' TERM\n{script}\nwhile :; do sleep 3600 & wait $!; done"]


def stubborn(script: str = "") -> list[str]:
    """A command that runs the script, then waits and ignores SIGTERM."""
    return ["sh", "-c", f"trap '' TERM\n{script}\nwhile :; do sleep 1; done"]


def lingering(*, status: int = 0) -> list[str]:
    """A command that notes in a file that it was asked to stop, and exits when the file ``/tmp/end`` is there."""
    return sh(f"trap 'touch /tmp/asked' TERM\nwhile [ ! -e /tmp/end ]; do sleep 0.2; done\nexit {status}")


def sh(script: str) -> list[str]:
    """A command that runs the script and exits."""
    return ["sh", "-c", script]


def container(name: str = "main", command: Sequence[str] | None = None, **fields: object) -> Json:
    """A container; its default command runs until SIGTERM."""
    return {"name": name, "image": BUSYBOX, "command": command or serving(), **fields}


def pod(name: str, *containers: Json, metadata: Mapping[str, object] | None = None, **spec: object) -> Json:
    """A pod with a short grace period; its default container runs until SIGTERM."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "containers": list(containers) or [container()],
            **spec,
        },
    }


def config_map(name: str, data: Mapping[str, str], **fields: object) -> Json:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": dict(data), **fields}


def secret(name: str, data: Mapping[str, str]) -> Json:
    """A Secret with text values."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": dict(data)}


def exec_handler(script: str) -> Json:
    """An exec action for hooks and probes."""
    return {"exec": {"command": sh(script)}}


def mount(name: str, path: str, **fields: object) -> Json:
    """A volume mount."""
    return {"name": name, "mountPath": path, **fields}
