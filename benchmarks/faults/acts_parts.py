"""Faults of volumes, registries, CNI plugins and the OCI runtime. Each act injects on entry, heals on exit."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.faults import pods
from benchmarks.faults.node import Node
from benchmarks.faults.parts import Order, Switch
from pykubelet.testing.agent import wait_for
from pykubelet.testing.fuse import Behaviour, FuseMount
from pykubelet.testing.registry import Conduct

_ASKED_SECONDS = 15.0
_STUCK_SECONDS = 0.4
_PODS = 6
"""Number of pods that use the same broken volume."""
_READING = "while :; do cat /volume/data >/dev/null; sleep 0.1; done"


def plugin(node: Node) -> Switch:
    return node.plugin


def oci(node: Node) -> Switch:
    return node.oci


def ordered(which: Callable[[Node], Switch], what: Order) -> Callable[[Node], contextlib.AbstractContextManager[None]]:
    """A program misbehaves as ordered."""

    @contextlib.contextmanager
    def act(node: Node) -> Iterator[None]:
        which(node).order(what)
        try:
            yield
        finally:
            which(node).order(Order.WORK)

    return act


@contextlib.contextmanager
def missing_plugin(node: Node) -> Iterator[None]:
    node.plugin.remove()
    try:
        yield
    finally:
        node.plugin.install()


def registry(how: Conduct | None) -> Callable[[Node], contextlib.AbstractContextManager[None]]:
    """A pod's image is on a registry with that conduct; None: it stalls in the middle of a layer."""

    @contextlib.contextmanager
    def act(node: Node) -> Iterator[None]:
        name = node.fresh("image")
        image = node.registry.add(name, files={"unique": os.urandom(16)})
        if how is None:
            node.registry.hold()
        else:
            node.registry.conduct = how
        try:
            node.add(name, pods.manifest("plain", name, str(node.notes), image), pods.wanted("plain"))
            wait_for(lambda: any(name in path for path in node.registry.requests), _ASKED_SECONDS, lambda: "no pull")
            yield
            if node.containers(name):
                node.complaints.append(f"{name}: runs an image that could not be pulled")
        finally:
            node.registry.conduct = Conduct.SERVE
            node.registry.release()

    return act


@contextlib.contextmanager
def hung_volume(node: Node) -> Iterator[None]:
    """Pods are created on a FUSE file system that does not respond; its daemon is restarted on exit."""
    with _volume(node, Behaviour.HANG) as volume:
        for number in range(_PODS):
            _use(node, volume, f"hung{number}")
        yield
        volume.kill()
        volume.unmount()
        volume.start()


@contextlib.contextmanager
def killed_volume(node: Node) -> Iterator[None]:
    """Pods are created on a FUSE file system whose daemon was killed; it is restarted on exit."""
    with _volume(node, Behaviour.WORK) as volume:
        volume.kill()
        for number in range(_PODS):
            _use(node, volume, f"dead{number}")
        yield
        volume.unmount()
        volume.start()


@contextlib.contextmanager
def volume_hangs_under_pod(node: Node) -> Iterator[None]:
    """A pod is removed while its program is blocked in a FUSE file system, where no signal reaches it."""
    with _volume(node, Behaviour.WORK) as volume:
        name = _use(node, volume, "stuck")
        wait_for(lambda: bool(node.containers(name)), _ASKED_SECONDS, lambda: f"{name} does not run")
        volume.behave(Behaviour.HANG)
        wait_for(_is_stuck, _ASKED_SECONDS, lambda: f"{name} is not stuck")
        node.remove(name)
        yield
        volume.kill()


@contextlib.contextmanager
def _volume(node: Node, how: Behaviour) -> Iterator[FuseMount]:
    """Mount a FUSE volume; it is unmounted after the try, because its pods exist until then."""
    volume = FuseMount(node.home / node.fresh("volume"))
    node.cleanups.callback(volume.stop)
    volume.start(how)
    try:
        yield volume
    except BaseException:
        volume.kill()
        raise


def _use(node: Node, volume: FuseMount, what: str) -> str:
    name = node.fresh(what)
    document = pods.manifest("plain", name, str(node.notes))
    spec = document["spec"]
    spec["volumes"].append({"name": "volume", "hostPath": {"path": str(volume.point)}})
    spec["containers"][0] = pods.container("main", f"echo run >>/notes/{name}.main; {_READING}")
    spec["containers"][0]["volumeMounts"].append({"name": "volume", "mountPath": "/volume"})
    node.add(name, document, pods.wanted("plain"))
    return name


def _reader() -> int:
    """PID of the process that reads the volume now; 0: no process does."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if b"cat\0/volume/data" in (entry / "cmdline").read_bytes():
                    return int(entry.name)
    return 0


def _is_stuck() -> bool:
    """Whether a process is blocked reading the volume."""
    before = _reader()
    time.sleep(_STUCK_SECONDS)
    return before != 0 and before == _reader()
