"""Keys of the live view."""

from dataclasses import replace

import pytest

from pykubelet.cli.live.plan.live_model import ContainerEntry, PodEntry, Sample
from pykubelet.cli.live.plan.view_state import Action, LogExtent, Mode, Sort, View, keys, ordered, react

LOG = LogExtent(100, 600, 20)


def entry(name: str, cpu: int = 0, memory: int = 0, restarts: int = 0) -> PodEntry:
    containers = tuple(ContainerEntry(each, "Running", 0, "i") for each in ("setup", "app", "side"))
    return PodEntry(
        ("ns", name),
        name,
        "1/1",
        "Running",
        restarts,
        0.0,
        "10.0.0.1",
        containers,
        1,
        (Sample(cpu, memory),),
    )


PODS = [entry(f"p{number}") for number in range(10)]


def press(view: View, *names: str, pods: list[PodEntry] | None = None) -> tuple[View, list[Action]]:
    actions = []
    for name in names:
        view, action = react(view, name, PODS if pods is None else pods, 4, LOG)
        actions += [action] if action else []
    return view, actions


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"jkq", ["j", "k", "q"]),
        (b"\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[1~\x1b[F", ["up", "down", "pageup", "pagedown", "home", "end"]),
        (b"\x1b", ["escape"]),
        (b"\r\x03 \t", ["enter", "interrupt", "pagedown", "tab"]),
        (b"\x1b[1;5C\x1b[200~\x1b[<0;1;1M", []),
        ("é\x00".encode(), []),
        (b"", []),
    ],
)
def test_bytes_of_a_terminal_become_keys(data: bytes, names: list[str]) -> None:
    assert keys(data) == names


@pytest.mark.parametrize(
    ("names", "selected"),
    [
        (["down"], "p1"),
        (["j", "j", "k"], "p1"),
        (["up"], "p0"),
        (["pagedown"], "p4"),
        (["end", "down"], "p9"),
        (["G", "pageup"], "p5"),
        (["end", "g"], "p0"),
        (["x"], "p0"),
    ],
)
def test_moves_stay_within_the_table(names: list[str], selected: str) -> None:
    view, actions = press(View(), *names)
    assert (view.selected, actions) == (("ns", selected), [])


def test_restart_needs_a_yes() -> None:
    view, actions = press(View(), "down", "r")
    assert (view.mode, actions) == (Mode.CONFIRM, [])
    assert press(view, "y") == (replace(view, mode=Mode.TABLE), [Action.RESTART])
    for other in ("n", "q", "enter", "r", "escape"):
        assert press(view, other) == (replace(view, mode=Mode.TABLE), [])


def test_restart_of_a_pod_that_is_gone_restarts_no_other() -> None:
    view, _ = press(View(), "r")
    assert press(view, "y", pods=PODS[1:]) == (replace(view, mode=Mode.TABLE), [])


def test_log_is_opened_and_closed() -> None:
    for key in ("l", "enter"):
        view, actions = press(View(), "down", key)
        assert (view.mode, view.container, actions) == (Mode.LOGS, 1, [Action.OPEN_LOG])
        for back in ("q", "escape", "left", "h"):
            closed, actions = press(view, back)
            assert (closed.mode, closed.selected, actions) == (Mode.TABLE, ("ns", "p1"), [Action.CLOSE_LOG])


def test_next_container_of_a_log_is_opened() -> None:
    view, actions = press(View(), "l", "c", "tab")
    assert (view.container, actions) == (0, [Action.OPEN_LOG] * 3)
    one = [replace(PODS[0], containers=PODS[0].containers[:1], init_containers=0)]
    view, actions = press(View(), "l", "c", pods=one)
    assert (view.container, actions) == (0, [Action.OPEN_LOG])


@pytest.mark.parametrize(
    ("names", "end"),
    [
        (["up"], 598),
        (["up", "down"], None),
        (["pageup", "k"], 578),
        (["home"], 119),
        (["home", "up"], 119),
        (["g", "G"], None),
        (["down"], None),
    ],
)
def test_log_scrolls_by_lines_and_follows_at_its_end(names: list[str], end: int | None) -> None:
    view, _ = press(View(), "l", *names)
    assert view.log_end == end


def test_keys_that_end_the_view() -> None:
    assert press(View(), "q")[1] == [Action.QUIT]
    for mode in Mode:
        assert press(View(mode=mode, selected=("ns", "p0")), "interrupt")[1] == [Action.QUIT]


def test_without_pods_only_quit_and_sort_do_something() -> None:
    view = View()
    assert press(view, "l", "r", "down", "end", pods=[]) == (view, [])
    assert press(view, "s", pods=[])[0].sort is Sort.CPU
    assert press(view, "q", pods=[])[1] == [Action.QUIT]


def test_sort_orders_by_usage_and_the_selection_stays_on_its_pod() -> None:
    pods = [entry("a", 1, 9, 5), entry("b", 3, 1, 0), entry("c", 2, 5, 9)]
    names = {sort: "".join(pod.name for pod in ordered(pods, sort)) for sort in Sort}
    assert names == {Sort.NAME: "abc", Sort.CPU: "bca", Sort.MEMORY: "acb", Sort.RESTARTS: "cab"}
    view, _ = press(View(selected=("ns", "a")), "s", "down", pods=ordered(pods, Sort.CPU))
    assert view.selected == ("ns", "a"), "a is the last one by CPU"
