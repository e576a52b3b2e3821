"""The lines of the live view's table on a screen of any size. Pure.

From top to bottom: the node, the pods, and if there is room the containers and events of the selected pod; a message
or the keys. Columns become narrower on a small screen, then disappear.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pykubelet.base.units import Seconds
from pykubelet.cli.live.plan.figures import chart, cores, memory, short_age
from pykubelet.cli.live.plan.live_model import NodeUsage, PodEntry, Sample
from pykubelet.cli.live.plan.view_state import Mode, View, ordered, selected_index
from pykubelet.cli.plan.screen_text import (
    Line,
    Span,
    Style,
    clipped,
    cut,
    cut_middle,
    fitted,
    visible,
    width_of,
    wrapped,
)

LEAST_NANO: Final = 20_000_000
"""Top of the scale of a chart of CPU usage, at least: a fiftieth of a core."""
_LEAST_MEMORY: Final = 8 << 20
_NAME: Final = 12
"""Width from which on names are not shortened for other columns."""
_STATUS: Final = 21
"""The width of a status is fixed, so that columns do not move when a pod changes."""
_TAIL: Final = 6
"""End of a generated name, which tells pods of one owner apart."""
_HEAD_LINES: Final = 4
_FULL_FROM: Final = 9
"""Height from which on there are all lines above the pods; otherwise there is one, and the headings."""
_DETAILS_FROM: Final = 15
"""Height from which on there are details of the selected pod."""
_DETAIL_LINES: Final = 9
_EVENT_INDENT: Final = 6
_KEYS: Final = ("↑↓ select", "l logs", "r restart", "s sort", "q quit")
_ASCII_KEYS: Final = ("j/k select", *_KEYS[1:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Everything that a screen of the table shows."""

    pods: Sequence[PodEntry]
    """By namespace and name."""
    node: NodeUsage
    view: View
    now: Seconds
    """Unix time."""
    has_namespaces: bool = False
    lost: str = ""
    """The reason why the agent does not respond; empty: it does."""
    lost_seconds: Seconds = 0.0
    notice: str = ""
    """The result of the last action."""
    hint: str = ""
    """A line above the pods, while nothing more urgent is shown there."""
    connected: bool = True
    """The pods are known; False before the first answer."""
    ascii_only: bool = False


@dataclass(frozen=True, slots=True)
class _Columns:
    """Widths of the columns; 0: the column is left out."""

    name: int
    ready: int
    status: int
    restarts: int
    graph: int
    usage: bool
    event: int
    gap: int = 1


def frame(scene: Scene, width: int, height: int) -> list[Line]:
    """Return exactly ``height`` lines of at most ``width`` cells."""
    pods = ordered(scene.pods, scene.view.sort)
    index = selected_index(scene.view, pods)
    body = table_rows(height)
    columns = _columns(scene, pods, width)
    first = _first_row(index, len(pods), body)
    shown = range(first, min(first + body, len(pods)))
    head = _head(scene, pods, shown, width)
    head = head if height >= _FULL_FROM else head[2:] if scene.lost else head[:1]
    lines = [*head, _headings(columns, scene)]
    lines += (_row(pods[at], columns, scene, is_selected=at == index) for at in shown)
    if not pods:
        lines.append(Line((Span("  no pods" if scene.connected else "  waiting for the agent", Style.FAINT),)))
    foot = _foot(scene, pods, index)
    free = height - len(lines) - 1
    details = list(_details(pods[index], scene, width, free)) if pods and height >= _DETAILS_FROM else []
    lines += [Line()] * (free - len(details)) if len(details) <= free else []
    lines += details[: max(0, free)]
    lines = [*lines[: height - 1], foot] if height > 1 else lines[:height]
    return [clipped(line, width) for line in lines]


def table_rows(height: int) -> int:
    """Return how many rows of pods a screen of this height has; at most half of the room is for details."""
    room = max(1, height - (_HEAD_LINES if height >= _FULL_FROM else 2) - 1)
    return room if height < _DETAILS_FROM else room - min(_DETAIL_LINES, room // 2)


def _first_row(index: int, count: int, body: int) -> int:
    """Return the first row that is shown: the selected one is in the middle of a list that is too long."""
    return max(0, min(index - body // 2, count - body))


def _head(scene: Scene, pods: Sequence[PodEntry], shown: range, width: int) -> list[Line]:
    node = scene.node
    title = (Span(f" {node.name or 'pykubelet'} ", Style.STRONG), *_summary(pods))
    if width_of(["".join(span.text for span in title)]) > width:
        title = (title[0], *_summary(pods, brief=True))
    samples = node.samples
    now = samples[-1] if samples else Sample()
    share = f" of {memory(node.capacity_bytes)} ({100 * (now.memory_bytes or 0) // max(1, node.capacity_bytes)}%)"
    graph = max(4, min(20, (width - 50) // 2))
    usage = [
        Span(" CPU ", Style.FAINT),
        Span(_cpu_chart(samples, graph, scene), Style.GRAPH),
        Span(f" {cores(now.cpu_nano_cores)}   "),
        Span("memory ", Style.FAINT),
        Span(_memory_chart(samples, graph, scene, node.capacity_bytes), Style.GRAPH),
        Span(f" {memory(now.memory_bytes)}{share if node.capacity_bytes else ''}"),
    ]
    banner = Line((Span(cut(f" {scene.hint}", width), Style.FAINT),)) if scene.hint else Line()
    if len(shown) < len(pods):
        banner = Line((Span(f" pods {shown.start + 1} to {shown.stop} of {len(pods)}", Style.FAINT),))
    if scene.lost:
        since = f" for {short_age(scene.lost_seconds)}" if scene.lost_seconds >= 1 else ""
        banner = Line((Span(cut(f" no agent{since}, retrying: {scene.lost}", width), Style.BAD),))
    return [Line(title), Line(tuple(usage)), banner]


def _summary(pods: Sequence[PodEntry], *, brief: bool = False) -> Iterator[Span]:
    """Yield how many pods there are, and how many of each state, those that are not settled first."""
    yield Span(f" {len(pods)} pod{'' if len(pods) == 1 else 's'}")
    counts: dict[tuple[bool, bool, str], int] = {}
    for pod in pods:
        word = pod.status if pod.is_settled or pod.status != "Running" else "not ready"
        word = "not settled" if brief and not pod.is_settled else word
        key = (pod.is_settled, word != "Running", word)
        counts[key] = counts.get(key, 0) + 1
    joint = ": "
    for (is_settled, _, word), count in sorted(counts.items()):
        yield Span(joint)
        yield Span(f"{count} {word}", Style.GOOD if is_settled else Style.WARNING)
        joint = ", "


def _headings(columns: _Columns, scene: Scene) -> Line:
    sort = scene.view.sort.value
    marks = {
        name: f"{name.upper()}*" if name == sort and sort != "name" else name.upper() for name in ("cpu", "memory")
    }
    restarts = "RESTARTS" if columns.restarts >= 8 else "RST"
    graph = columns.graph + 1 if columns.graph else 0
    cells = [
        (fitted("NAME", columns.name), columns.name),
        (fitted("READY", columns.ready), columns.ready),
        (fitted("STATUS", columns.status), columns.status),
        (fitted(restarts, columns.restarts, right=True), columns.restarts),
        (fitted(marks["cpu"], graph + 5, right=True), columns.usage),
        (fitted("MEM" if not graph else marks["memory"], graph + 6, right=True), columns.usage),
        (fitted("LAST EVENT", columns.event), columns.event),
    ]
    text = (" " * columns.gap).join(cell for cell, is_shown in cells if is_shown)
    return Line((Span(f" {text}", Style.STRONG),))


def _row(pod: PodEntry, columns: _Columns, scene: Scene, *, is_selected: bool) -> Line:
    name = cut_middle(_name(pod, scene), columns.name, _TAIL)
    style = Style.GOOD if pod.is_settled else Style.BAD if _is_failing(pod) else Style.WARNING
    gap = Span(" " * columns.gap)
    cells = [[Span(fitted(name, columns.name), Style.STRONG if is_selected else Style.PLAIN)]]
    if columns.ready:
        cells.append([Span(fitted(pod.ready, columns.ready))])
    if columns.status:
        cells.append([Span(fitted(pod.status, columns.status), style)])
    if columns.restarts:
        restarts = fitted(str(pod.restarts), columns.restarts, right=True)
        cells.append([Span(restarts, Style.WARNING if pod.restarts else Style.PLAIN)])
    if columns.usage:
        cpu, size = cores(pod.now.cpu_nano_cores), memory(pod.now.memory_bytes)
        graph, blank = columns.graph, " " if columns.graph else ""
        cpu_graph, size_graph = _cpu_chart(pod.samples, graph, scene), _memory_chart(pod.samples, graph, scene)
        cells.append([Span(cpu_graph, Style.GRAPH), Span(blank + fitted(cpu, 5, right=True))])
        cells.append([Span(size_graph, Style.GRAPH), Span(blank + fitted(size, 6, right=True))])
    if columns.event:
        cells.append(_last_event(pod, columns.event, scene.now))
    spans = [Span(">" if is_selected else " ")]
    for cell in cells:
        spans += [*cell, gap]
    return Line(tuple(spans[:-1]), bar=is_selected)


def _last_event(pod: PodEntry, width: int, now: Seconds) -> list[Span]:
    if not pod.events:
        return [Span(fitted("-", width), Style.FAINT)]
    event = pod.events[0]
    text = f"{event.reason}: {event.message}" if width >= 30 and event.message else event.reason
    age = f"{short_age(now - event.at):>3} "
    return [
        Span(age, Style.FAINT),
        Span(fitted(text, width - len(age)), Style.WARNING if event.is_warning else Style.PLAIN),
    ]


def _details(pod: PodEntry, scene: Scene, width: int, free: int) -> Iterator[Line]:
    """Yield the selected pod's containers and events; messages are cut if they do not fit into the free lines."""
    bar = "-" if scene.ascii_only else "─"
    about = [_name(pod, scene), pod.ip, *([f"age {short_age(scene.now - pod.created_at)}"] if pod.created_at else [])]
    title = f"{bar * 2} {'  '.join(about)} "
    yield Line((Span(title + bar * max(0, width - width_of([title])), Style.FAINT),))
    containers, events = list(_containers(pod)), pod.events[:4]
    yield from containers
    spare = max(0, free - 1 - len(containers) - len(events))
    for event in events:
        style = Style.WARNING if event.is_warning else Style.PLAIN
        age = fitted(short_age(scene.now - event.at), 4, right=True)
        # With the reason in front of it, so that both are wrapped as one text.
        first, *more = wrapped(f"{event.reason} {event.message}", max(1, width - _EVENT_INDENT))
        message = first[len(event.reason) :]
        if len(more) > spare:
            message, more = f" {event.message}", []
        spare -= len(more)
        yield Line((Span(f" {age} ", Style.FAINT), Span(event.reason, style), Span(message)))
        yield from (Line((Span(" " * _EVENT_INDENT + text),)) for text in more)


def _containers(pod: PodEntry) -> Iterator[Line]:
    shown = pod.containers[-4:]
    widths = [width_of([each.name for each in shown]), width_of([each.state for each in shown])]
    for each in shown:
        usage = pod.containers_now.get(each.name, Sample())
        figures = f"{cores(usage.cpu_nano_cores):>6} {memory(usage.memory_bytes):>7}"
        style = Style.GOOD if each.state in ("Running", "Completed") else Style.WARNING
        yield Line(
            (
                Span(f" {fitted(each.name, min(24, widths[0]))}  "),
                Span(fitted(each.state, widths[1]), style),
                Span(f" {figures}  "),
                Span(each.image, Style.FAINT),
            )
        )


def _foot(scene: Scene, pods: Sequence[PodEntry], index: int) -> Line:
    if scene.view.mode is Mode.CONFIRM and pods:
        # The question is for the pod that was selected, even if the table has moved on.
        name = next((_name(pod, scene) for pod in pods if pod.key == scene.view.selected), "")
        text = f" restart pod {name}? y: yes, any other key: no" if name else " the pod is gone; press any key"
        return Line((Span(text, Style.STRONG),), bar=True)
    if scene.notice:
        return Line((Span(f" {scene.notice}", Style.STRONG),), bar=True)
    words = list(_ASCII_KEYS if scene.ascii_only else _KEYS)
    words[3] = f"s sort: {scene.view.sort.value}"
    return Line((Span(" " + "   ".join(words), Style.FAINT),))


def _columns(scene: Scene, pods: Sequence[PodEntry], width: int) -> _Columns:
    """Return the widest columns that fit."""
    name = min(40, width_of(["NAME", *(_name(pod, scene) for pod in pods)]))
    ready = width_of(["READY", *(pod.ready for pod in pods)])
    restarts = width_of(["RST", *(str(pod.restarts) for pod in pods)])
    wide = max(8, restarts)
    choices = (
        _Columns(name, ready, _STATUS, wide, 20, True, 40, 2),
        _Columns(name, ready, _STATUS, wide, 12, True, 20, 2),
        _Columns(name, ready, 17, wide, 8, True, 14),
        # ContainerCreating has 17 characters.
        _Columns(name, ready, 17, restarts, 8, True, 13),
        _Columns(name, ready, 17, restarts, 5, True, 12),
        _Columns(name, ready, 17, restarts, 4, True, 11),
        _Columns(name, 0, 16, restarts, 4, True, 11),
        _Columns(name, 0, 16, restarts, 0, True, 11),
        _Columns(name, 0, 16, restarts, 0, True, 0),
        _Columns(name, 0, 9, restarts, 0, True, 0),
        _Columns(name, 0, 12, restarts, 0, False, 0),
        _Columns(name, 0, 9, 0, 0, False, 0),
    )
    for each in choices:
        rest = width - 1 - _used(each) - each.gap
        if rest >= min(name, _NAME):
            # The remaining width goes to the name, then to the event.
            event = each.event + max(0, rest - name) if each.event else 0
            fixed = (each.ready, each.status, each.restarts, each.graph, each.usage)
            return _Columns(min(name, rest), *fixed, event, each.gap)
    return _Columns(max(1, width - 1), 0, 0, 0, 0, False, 0)


def _used(columns: _Columns) -> int:
    """Return the width of everything but the name."""
    graph = columns.graph + 1 if columns.graph else 0
    usage: tuple[int, ...] = (graph + 5, graph + 6) if columns.usage else ()
    shown = [each for each in (columns.ready, columns.status, columns.restarts, *usage, columns.event) if each]
    return sum(shown) + columns.gap * max(0, len(shown) - 1)


def _name(pod: PodEntry, scene: Scene) -> str:
    return f"{visible(pod.key[0])}/{pod.name}" if scene.has_namespaces else pod.name


def _is_failing(pod: PodEntry) -> bool:
    return any(word in pod.status for word in ("BackOff", "Err", "Error", "OOM", "Failed", "Unknown", "Invalid"))


def _cpu_chart(samples: Sequence[Sample], width: int, scene: Scene) -> str:
    values = [each.cpu_nano_cores for each in samples]
    return chart(values, width, least=LEAST_NANO, ascii_only=scene.ascii_only)


def _memory_chart(samples: Sequence[Sample], width: int, scene: Scene, top: int = 0) -> str:
    values = [each.memory_bytes for each in samples]
    return chart(values, width, least=max(top, _LEAST_MEMORY), ascii_only=scene.ascii_only)
