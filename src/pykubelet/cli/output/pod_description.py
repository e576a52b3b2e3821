"""The description of a pod, as ``pykubelet describe`` prints it."""

import time
from collections.abc import Iterator, Sequence

import msgspec

from pykubelet.base.errors import NotFound
from pykubelet.base.files.decoding import convert
from pykubelet.base.text import printable
from pykubelet.cli.arguments.lookup import FoundPod
from pykubelet.cli.arguments.pod_objects import pod_object
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.output.pull_progress import Pulls, long_text, pull_of, running_pulls
from pykubelet.cli.plan.columns import Columns, age, hanging
from pykubelet.cli.plan.event_subject import container_named
from pykubelet.cli.plan.pod_row import pod_status_word
from pykubelet.cli.terminal import terminal_width
from pykubelet.kubelet.types.podspec import AnyContainer, each_container
from pykubelet.kubelet.types.reports.container_ends import ContainerEnd
from pykubelet.kubelet.types.runtime import ContainerKind
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import ContainerState, ContainerStatus, Event, Pod, Probe, Volume

_TITLES = {
    ContainerKind.INIT: "Init Containers",
    ContainerKind.CONTAINER: "Containers",
    ContainerKind.EPHEMERAL: "Ephemeral Containers",
}


def describe_pod(api: LocalApi, found: FoundPod) -> str:
    """Return the lines about a pod, with its events. Errors as of :meth:`LocalApi.get`; Invalid: it is no pod."""
    pod = pod_object(found)
    selector = f"involvedObject.name={pod.metadata.name}"
    items = api.get(f"/api/v1/namespaces/{pod.metadata.namespace}/events", fieldSelector=selector)["items"]
    events = [from_builtins(item, Event) for item in items]
    ends = _ends_of(api, pod)
    pulls = running_pulls(api) if pod.status.phase == "Pending" else {}
    parts = (
        _head(pod, pod_status_word(found.item), _manifest_of(api, pod)),
        _containers(pod, pulls),
        _conditions(pod),
        _volumes(pod),
        _restarts(ends),
        _events(events),
    )
    return "\n".join(line for part in parts for line in part)


def _ends_of(api: LocalApi, pod: Pod) -> list[ContainerEnd]:
    try:
        items = api.get(f"/pykubelet/v1/restarts/{pod.metadata.namespace}/{pod.metadata.name}")["items"]
    except NotFound:  # an older agent, or the pod is gone by now
        return []
    return convert(items, list[ContainerEnd])


def _manifest_of(api: LocalApi, pod: Pod) -> list[str]:
    """Return the lines about the pod's file; none if the pod comes from elsewhere."""
    name = pod.metadata.name.removesuffix(f"-{pod.spec.node_name.lower()}")
    key = f"Pod {pod.metadata.namespace}/{name}"
    for item in api.get("/pykubelet/v1/manifests")["items"]:
        if key in (*item.get("objects", ()), *item.get("kept", ())):
            problems = item.get("problems", ()) if key in item.get("kept", ()) else ()
            return [item["file"], *(f"{problem} (an earlier version of the pod is in force)" for problem in problems)]
    return []


def _field(label: str, value: object, indent: int = 0) -> str:
    """Return one field. Lines of the value after its first are indented, so that they cannot look like fields.

    A value of one word, such as an id, is left to the terminal, from which it is then copied as one.
    """
    text = f"{' ' * indent}{label + ':':<{17 - indent}} {value}".replace("\n", "\n" + " " * 18)
    width = terminal_width() if " " in str(value) else None
    return "\n".join(hanging(line, 18, width) for line in text.split("\n"))


def _pairs(label: str, pairs: dict[str, str]) -> Iterator[str]:
    lines = [f"{key}={value}" for key, value in sorted(pairs.items())] or ["<none>"]
    yield _field(label, lines[0])
    yield from (" " * 18 + line.replace("\n", "\n" + " " * 18) for line in lines[1:])


def _head(pod: Pod, word: str, manifest: Sequence[str]) -> Iterator[str]:
    status = pod.status
    yield _field("Name", pod.metadata.name)
    yield _field("Namespace", pod.metadata.namespace)
    yield _field("Node", f"{pod.spec.node_name}/{status.host_ip}")
    for label, value in zip(("Manifest", *["Problem"] * len(manifest)), manifest, strict=False):
        yield _field(label, value)
    yield _field("Start Time", status.start_time or "<none>")
    yield from _pairs("Labels", pod.metadata.labels)
    yield from _pairs("Annotations", pod.metadata.annotations)
    yield _field("Status", word)
    for label, value in (("Reason", status.reason), ("Message", status.message)):
        if value:
            yield _field(label, value)
    yield _field("IP", status.pod_ip or "<none>")
    yield _field("QoS Class", status.qos_class or "<none>")


def _containers(pod: Pod, pulls: Pulls) -> Iterator[str]:
    statuses = {
        c.name: c
        for group in (
            pod.status.init_container_statuses,
            pod.status.container_statuses,
            pod.status.ephemeral_container_statuses,
        )
        for c in group
    }
    last: ContainerKind | None = None
    for kind, container in each_container(pod):
        if kind is not last:
            yield f"{_TITLES[kind]}:"
            last = kind
        yield f"  {container.name}:"
        status = statuses.get(container.name)
        yield from _container(container, status)
        pull = pull_of(container.image, pulls)
        if pull and status and status.state and status.state.waiting:
            yield _field("Pull", long_text(pull), 4)


def _container(container: AnyContainer, status: ContainerStatus | None) -> Iterator[str]:
    if status:
        yield _field("Container ID", status.container_id or "<none>", 4)
    yield _field("Image", container.image, 4)
    if status:
        yield _field("Image ID", status.image_id or "<none>", 4)
    if container.ports:
        yield _field("Ports", ", ".join(f"{p.container_port}/{p.protocol or 'TCP'}" for p in container.ports), 4)
    for label, words in (("Command", container.command), ("Args", container.args)):
        if words:
            yield _field(label, printable(" ".join(words)), 4)
    if status and status.state:
        yield from _state("State", status.state)
        if status.last_state:
            yield from _state("Last State", status.last_state)
        yield _field("Ready", status.ready, 4)
        yield _field("Restart Count", status.restart_count, 4)
    if container.resources:
        for label, amounts in (("Limits", container.resources.limits), ("Requests", container.resources.requests)):
            if amounts:
                yield _field(label, ", ".join(f"{key}={value}" for key, value in amounts.items()), 4)
    for label, probe in (
        ("Liveness", container.liveness_probe),
        ("Readiness", container.readiness_probe),
        ("Startup", container.startup_probe),
    ):
        if probe:
            yield _field(label, _probe(probe), 4)
    for index, mount in enumerate(container.volume_mounts):
        text = printable(f"{mount.mount_path} from {mount.name}{' (ro)' if mount.read_only else ''}")
        yield _field("Mounts", text, 4) if index == 0 else " " * 18 + text


def _state(label: str, state: ContainerState) -> Iterator[str]:
    if state.running:
        yield _field(label, "Running", 4)
        yield _field("Started", state.running.started_at, 6)
    elif state.terminated:
        ended = state.terminated
        yield _field(label, "Terminated", 4)
        yield _field("Reason", ended.reason, 6)
        if ended.message:
            yield _field("Message", ended.message.strip(), 6)
        yield _field("Exit Code", ended.exit_code, 6)
        yield _field("Started", ended.started_at, 6)
        yield _field("Finished", ended.finished_at, 6)
    elif state.waiting:
        yield _field(label, "Waiting", 4)
        yield _field("Reason", state.waiting.reason, 6)
        if state.waiting.message:
            yield _field("Message", state.waiting.message, 6)


def _probe(probe: Probe) -> str:
    if probe.http_get:
        get = probe.http_get
        what = f"http-get {(get.scheme or 'HTTP').lower()}://{get.host}:{get.port}{get.path}"
    elif probe.tcp_socket:
        what = f"tcp-socket :{probe.tcp_socket.port}"
    elif probe.grpc:
        what = f"grpc :{probe.grpc.port} {probe.grpc.service}".rstrip()
    else:
        what = f"exec {list(probe.exec.command) if probe.exec else []}"
    return (
        f"{what} delay={probe.initial_delay_seconds or 0}s timeout={probe.timeout_seconds or 1}s "
        f"period={probe.period_seconds or 10}s #success={probe.success_threshold or 1} "
        f"#failure={probe.failure_threshold or 3}"
    )


def _conditions(pod: Pod) -> Iterator[str]:
    yield "Conditions:"
    rows = [(f"  {c.type}", c.status, c.reason, c.message) for c in pod.status.conditions]
    yield Columns("  Type", "Status", "Reason", "Message").render(rows, terminal_width())


def _volumes(pod: Pod) -> Iterator[str]:
    if pod.spec.volumes:
        yield "Volumes:"
    for volume in pod.spec.volumes:
        yield f"  {volume.name + ':':<16}{printable(_volume_source(volume))}"


def _volume_source(volume: Volume) -> str:
    if volume.empty_dir:
        return f"emptyDir {volume.empty_dir.medium or 'on disk'}"
    if volume.host_path:
        return f"hostPath {volume.host_path.path} {volume.host_path.type or ''}".rstrip()
    if volume.config_map:
        return f"configMap {volume.config_map.name}"
    if volume.secret:
        return f"secret {volume.secret.secret_name}"
    if volume.image:
        return f"image {volume.image.reference}"
    if volume.nfs:
        return f"nfs {volume.nfs.server}:{volume.nfs.path}"
    if volume.csi:
        return f"csi {volume.csi.driver}"
    if volume.persistent_volume_claim:
        return f"persistentVolumeClaim {volume.persistent_volume_claim.claim_name}"
    fields = (each for each in msgspec.structs.fields(Volume) if each.name != "name")
    return next((each.encode_name for each in fields if getattr(volume, each.name) is not None), "emptyDir on disk")


def _restarts(ends: list[ContainerEnd]) -> Iterator[str]:
    """Yield the lines about containers that have ended, the latest first."""
    if not ends:
        return
    yield "Ended Containers:"
    now = time.time()
    rows = [
        (
            f"  {end.container}",
            str(end.exit_code),
            end.reason or "<unknown>",
            age(end.finished_at - end.started_at) if end.started_at and end.finished_at else "<unknown>",
            age(now - end.finished_at) if end.finished_at else "<unknown>",
        )
        for end in reversed(ends)
    ]
    yield Columns("  Container", "Exit Code", "Reason", "Ran", "Age").render(rows)


def _events(events: list[Event]) -> Iterator[str]:
    yield "Events:" if events else _field("Events", "<none>")
    if events:
        now = time.time()
        rows = []
        for event in events:
            seen = event.last_timestamp or event.metadata.creation_timestamp
            when = age(now - seen.timestamp()) if seen else "<unknown>"
            times = f" (x{event.count})" if (event.count or 1) > 1 else ""
            container = container_named(event.involved_object.field_path)
            rows.append((f"  {event.type}", event.reason, when + times, container or "-", event.message))
        yield Columns("  Type", "Reason", "Age", "Container", "Message").render(rows, terminal_width())
