"""The lines of the live view's log."""

from rich.cells import cell_len

from pykubelet.cli.live.plan.live_model import ContainerEntry, PodEntry
from pykubelet.cli.live.plan.log_frame import LogText, log_frame
from pykubelet.cli.live.plan.view_state import LogExtent, Mode, View

POD = PodEntry(
    ("ns", "web"),
    "web",
    "1/1",
    "Running",
    0,
    0.0,
    "10.0.0.1",
    (ContainerEntry("app", "Running", 2, "i"), ContainerEntry("side", "Running", 0, "i")),
)


def texts(
    log: LogText, end: int | None = None, pod: PodEntry | None = POD, width: int = 40, height: int = 6
) -> list[str]:
    view = View(mode=Mode.LOGS, selected=("ns", "web"), log_end=end)
    lines = [line.text.rstrip() for line in log_frame(log, pod, view, width, height)]
    assert len(lines) == height
    assert all(cell_len(line) <= width for line in lines)
    return lines


def filled(count: int) -> LogText:
    log = LogText()
    for number in range(count):
        log.add(f"line {number}")
    return log


def test_newest_lines_are_shown_between_title_and_keys() -> None:
    lines = texts(filled(50))
    assert lines[0] == " log of web/app  Running, 2 restarts"
    assert lines[1:5] == ["line 46", "line 47", "line 48", "line 49"]
    assert lines[5] == " q back   ↑↓ scroll   c next container"


def test_scrolled_log_stays_where_it_is() -> None:
    log = filled(50)
    before = texts(log, end=20)
    assert before[1:5] == ["line 17", "line 18", "line 19", "line 20"]
    assert before[5].startswith(" 29 newer lines")
    log.add("another")
    assert texts(log, end=20)[1:5] == before[1:5]


def test_kept_lines_are_bounded_and_keep_their_numbers() -> None:
    log = filled(2100)
    assert log.extent(6) == LogExtent(100, 2100, 4)
    assert texts(log, end=103)[1:5] == ["line 100", "line 101", "line 102", "line 103"]
    log.add("x" * 100_000)
    assert len(log.before(2101)[-1]) == 8192


def test_long_lines_are_wrapped_by_their_width() -> None:
    log = LogText()
    log.add("日" * 12)
    assert texts(log, width=10)[1:4] == ["日" * 5, "日" * 5, "日" * 2]


def test_states_without_lines() -> None:
    log = LogText()
    assert texts(log)[1] == " no output yet"
    log.end("the log has ended")
    assert texts(log, width=80)[-1].startswith(" the log has ended   q back")
    assert texts(log, pod=None)[0] == " log of web (the pod is gone)"


def test_reason_for_an_empty_log_is_whole() -> None:
    log = LogText()
    log.end('container "main" in pod "web" is waiting to start: image cannot be pulled')
    assert texts(log, width=80)[-1].endswith("…   q back   ↑↓ scroll   c next container"), "the keys are not cut"
    lines = texts(log, width=40)
    assert lines[1] == " no output yet"
    assert "".join(line[1:] for line in lines[2:4]) == log.state
    log.add("one")
    assert [line for line in texts(log, width=40) if "cannot be pulled" in line] == []


def test_every_height_is_filled() -> None:
    for height in (1, 2, 3, 40):
        texts(filled(30), height=height)
