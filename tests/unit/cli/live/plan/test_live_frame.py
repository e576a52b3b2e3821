"""The lines of the live view's table."""

from dataclasses import replace

import pytest
from rich.cells import cell_len

from pykubelet.cli.live.plan.live_frame import Scene, frame, table_rows
from pykubelet.cli.live.plan.live_model import ContainerEntry, NodeUsage, PodEntry, Sample, SeenEvent
from pykubelet.cli.live.plan.view_state import Mode, View
from pykubelet.cli.plan.screen_text import Style

MIB = 1 << 20
NOW = 5000.0


def entry(name: str, status: str = "Running", ready: str = "1/1", restarts: int = 0, **more: object) -> PodEntry:
    samples = tuple(Sample(number * 10_000_000, 30 * MIB) for number in range(1, 13))
    made = PodEntry(
        key=("default", name),
        name=name,
        ready=ready,
        status=status,
        restarts=restarts,
        created_at=NOW - 300,
        ip="10.0.0.1",
        containers=(ContainerEntry("app", "Running", 0, "localhost/demo:1"),),
        samples=samples if status == "Running" else (Sample(),),
        containers_now={"app": samples[-1]},
        events=(SeenEvent(NOW - 40, False, "Started", "Started container app"),),
    )
    return replace(made, **more)  # type: ignore[arg-type]


FAILING = entry(
    "web", "CrashLoopBackOff", "0/1", 7, events=(SeenEvent(NOW - 90, True, "BackOff", "Back-off restarting"),)
)
NODE = NodeUsage("demo-node", 4096 * MIB, (Sample(100_000_000, 1024 * MIB), Sample(312_000_000, 1024 * MIB)))


def scene(*pods: PodEntry, selected: str = "", **more: object) -> Scene:
    view = View(selected=("default", selected)) if selected else View()
    return replace(Scene(pods=pods, node=NODE, view=view, now=NOW), **more)  # type: ignore[arg-type]


def texts(shown: Scene, width: int = 80, height: int = 24) -> list[str]:
    lines = frame(shown, width, height)
    assert len(lines) == height
    assert max(cell_len(line.text) for line in lines) <= width
    return [line.text.rstrip() for line in lines]


def test_screen_of_80_columns_has_all_columns() -> None:
    lines = texts(scene(entry("cache"), FAILING, selected="web"))
    assert lines[0] == " demo-node  2 pods: 1 CrashLoopBackOff, 1 Running"
    assert "312m" in lines[1] and "1.0Gi of 4.0Gi (25%)" in lines[1]
    assert lines[3].split() == ["NAME", "READY", "STATUS", "RST", "CPU", "MEMORY", "LAST", "EVENT"]
    assert lines[4].split() == [
        "cache",
        "1/1",
        "Running",
        "0",
        "▃▄▅▅▆▆▇▇",
        "120m",
        "▇" * 8,
        "30Mi",
        *["40s", "Started"],
    ]
    assert lines[5].split() == [">web", "0/1", "CrashLoopBackOff", "7", "-", "-", "1m", "BackOff"]
    assert lines[-1].split("   ") == [" ↑↓ select", "l logs", "r restart", "s sort: name", "q quit"]


def test_hint_is_shown_above_the_pods_unless_the_agent_is_away() -> None:
    shown = scene(entry("cache"), hint="in another terminal: pykubelet get pods")
    assert texts(shown)[2] == " in another terminal: pykubelet get pods"
    assert texts(replace(shown, lost="gone"))[2] == " no agent, retrying: gone"


def test_details_of_the_selected_pod_are_at_the_bottom() -> None:
    lines = texts(scene(entry("cache"), FAILING, selected="cache"))
    (at,) = (number for number, line in enumerate(lines) if line.startswith("── cache  10.0.0.1  age 5m ─"))
    assert lines[at + 1].split() == ["app", "Running", "120m", "30Mi", "localhost/demo:1"]
    assert lines[at + 2].split() == ["40s", "Started", "Started", "container", "app"]


@pytest.mark.parametrize("width", [1, 8, 20, 30, 40, 50, 60, 79, 80, 81, 100, 132, 250])
@pytest.mark.parametrize("height", [1, 2, 3, 5, 9, 10, 15, 16, 24, 60])
def test_every_size_is_filled_and_not_exceeded(width: int, height: int) -> None:
    pods = [entry(f"pod-with-a-long-name-{number}", restarts=number) for number in range(30)]
    lines = texts(scene(*pods, FAILING, selected="web"), width, height)
    if height >= 4 and width >= 20:
        assert any(line.startswith(">") for line in lines), "the selected pod is always visible"


def test_messages_of_events_are_whole_where_there_is_room() -> None:
    message = "Failed to pull image: " + " ".join(f"word{number}" for number in range(30))
    events = (SeenEvent(NOW - 1, True, "Failed", message), SeenEvent(NOW - 9, False, "Started", "x " * 120))
    pod = entry("web", events=events)
    shown = "".join(line[6:].ljust(74) for line in texts(scene(pod)) if line)
    assert f"Failed {message}" in " ".join(shown.split()).replace("- ", "-")
    others = [entry(f"other-{number}") for number in range(20)]
    small = texts(scene(pod, *others, selected="web"), height=15)
    reported = [line for line in small if line.lstrip().startswith(("1s Failed Failed", "9s Started x"))]
    assert [line[-1] for line in reported] == ["…", "…"], "without room an event has one line"


def test_narrow_screen_keeps_name_status_restarts_and_usage() -> None:
    lines = texts(scene(entry("cache-server"), FAILING), 40)
    assert lines[3].split() == ["NAME", "STATUS", "RST", "CPU", "MEM"]
    assert lines[4].split() == [">cache-server", "Running", "0", "120m", "30Mi"]
    assert lines[5].split() == ["web", "CrashLoo…", "7", "-", "-"]


def test_wide_screen_shows_messages_of_events() -> None:
    lines = texts(scene(FAILING), 160)
    assert "RESTARTS" in lines[3]
    assert lines[4].endswith("1m BackOff: Back-off restarting")


def test_columns_do_not_move_when_a_status_changes() -> None:
    before, after = texts(scene(entry("web"))), texts(scene(entry("web", "CrashLoopBackOff", "0/1")))
    assert before[3] == after[3]


def test_tall_list_scrolls_with_the_selection() -> None:
    pods = [entry(f"p{number:03}") for number in range(100)]
    rows = table_rows(24)
    for selected, shown in (("p000", range(rows)), ("p050", range(50 - rows // 2, 50 - rows // 2 + rows))):
        lines = texts(scene(*pods, selected=selected))
        assert [line[1:5] for line in lines[4 : 4 + rows]] == [f"p{number:03}" for number in shown]
    lines = texts(scene(*pods, selected="p099"))
    assert lines[4 + rows - 1].startswith(">p099")
    assert lines[2] == f" pods {100 - rows + 1} to 100 of 100"


def test_pod_that_is_gone_hands_its_selection_to_the_next_one() -> None:
    shown = scene(entry("a"), entry("c"), view=View(selected=("default", "b"), index=1))
    assert any(line.startswith(">c") for line in texts(shown))


def test_wide_characters_keep_the_columns() -> None:
    lines = texts(scene(entry("网页服务器"), entry("plain")))
    at = cell_len(lines[5][: lines[5].index("1/1")])
    assert cell_len(lines[4][: lines[4].index("1/1")]) == at
    long = texts(scene(entry("网" * 40), entry("plain")))
    assert cell_len(long[4][: long[4].index("1/1")]) == cell_len(long[5][: long[5].index("1/1")])
    assert "…" in long[4]


def test_end_of_a_generated_name_stays_visible() -> None:
    lines = texts(scene(entry("coredns-5d78c9869d-x2x4z"), FAILING), 60)
    assert lines[4].split()[0].endswith("…-x2x4z")


def test_agent_that_is_away_is_named_and_the_table_stays() -> None:
    for size in ((80, 24), (40, 6)):
        lines = texts(scene(entry("web"), lost="/run/a.sock: Connection refused", lost_seconds=12.0), *size)
        assert any(line.startswith(" no agent for 12s, retrying: /run/a") for line in lines)
        assert any("web" in line for line in lines[1:])


def test_question_and_notices_replace_the_keys() -> None:
    asked = scene(entry("web"), view=View(mode=Mode.CONFIRM, selected=("default", "web")))
    assert texts(asked)[-1] == " restart pod web? y: yes, any other key: no"
    gone = scene(entry("other"), view=View(mode=Mode.CONFIRM, selected=("default", "web")))
    assert texts(gone)[-1] == " the pod is gone; press any key"
    assert texts(scene(entry("web"), notice="restart of pod web requested"))[-1] == " restart of pod web requested"


def test_without_pods_the_screen_says_why() -> None:
    assert "  no pods" in texts(scene())
    assert "  waiting for the agent" in texts(scene(connected=False))


def test_names_have_their_namespace_if_there_are_several() -> None:
    pods = (entry("web"), entry("db", key=("data", "db")))
    lines = texts(scene(*pods, has_namespaces=True))
    assert [line.split()[0].lstrip(">") for line in lines[4:6]] == ["default/web", "data/db"]


def test_hostile_namespaces_and_names_are_escaped() -> None:
    pods = (entry("web", key=("a\x1b[2J", "web")), entry("db", key=("data", "db")))
    assert any("a\\x1b[2J/web" in line for line in texts(scene(*pods, has_namespaces=True), 100))


def test_colours_tell_settled_waiting_and_failing_pods_apart() -> None:
    waiting = entry("new", "ContainerCreating", "0/1")
    lines = frame(scene(entry("ok"), waiting, FAILING, entry("slow", ready="0/1")), 80, 24)
    found = [next(s.style for s in line.spans if s.text.strip() and s.text[0] in "RC") for line in lines[4:8]]
    assert found == [Style.GOOD, Style.WARNING, Style.BAD, Style.WARNING]
    assert [line.bar for line in lines[4:8]] == [True, False, False, False]


@pytest.mark.parametrize("name", ["web", "db-one", "database", "twelve-chars"])
def test_status_of_a_starting_pod_is_whole_at_80_columns(name: str) -> None:
    line = texts(scene(entry(name, "ContainerCreating", "0/1")), 80)[4]
    assert f">{name} " in line and " ContainerCreating " in line


def test_ascii_screen_has_only_ascii() -> None:
    assert "".join(texts(scene(entry("ok"), FAILING, ascii_only=True))).isascii()
