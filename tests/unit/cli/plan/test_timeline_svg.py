"""The picture of pods' starts."""

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.cli.plan.timeline_svg import _GROUPS, duration, timeline_svg
from pykubelet.kubelet.types.reports.timeline import Step

SVG = "{http://www.w3.org/2000/svg}"


def step(name: str, start: float, length: float, **more: Any) -> dict[str, Any]:
    return {
        "step": name,
        "container": "",
        "start_s": start,
        "duration_s": length,
        "error": "",
        "running": False,
        **more,
    }


def view(*steps: dict[str, Any], pod: str = "default/web", **more: Any) -> dict[str, Any]:
    ready = {"ready": True, "total_s": 2.0, "started_at": 1_767_225_600.0, "kind": "start"}
    return {"pod": pod, "uid": "u", "steps": list(steps), **ready, **more}


USUAL = view(
    step("seen", 0, 0),
    step("sandbox", 0.5, 0.5),
    step("start", 1.0, 1.0, container="app", error="refused <by> & so on"),
    step("ready", 2.0, 0),
)


def parsed(text: str) -> ElementTree.Element:
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg"
    return root


def texts(root: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{SVG}text")]


def bars(root: ElementTree.Element, kind: str) -> list[tuple[float, float]]:
    """Position and width of the bars of a class, without the legend."""
    found = (each for each in root.iter(f"{SVG}rect") if kind in each.get("class", "").split())
    return [(float(each.get("x", "")), float(each.get("width", ""))) for each in found if each.get("height") == "14"]


def test_picture_has_labels_durations_errors_and_one_scale() -> None:
    root = parsed(timeline_svg([USUAL]))
    shown = texts(root)
    assert shown[:2] == ["default/web", "start at 2026-01-01 00:00:00 UTC, ready after 2.00 s"]
    for wanted in ("seen", "at 0 s", "sandbox", "500 ms", "start app", "1.00 s", "refused <by> & so on", "at 2.00 s"):
        assert wanted in shown
    ((x, width),) = bars(root, "sandbox")
    ((later, twice),) = bars(root, "failed")
    assert later == pytest.approx(x + width, abs=0.2)
    assert twice == pytest.approx(2 * width, abs=0.2)
    ticks = [each.text for each in root.iter(f"{SVG}text") if each.get("text-anchor") == "middle"]
    assert ticks == ["0 s", "0.5 s", "1 s", "1.5 s", "2 s"]


def test_everything_is_within_the_picture() -> None:
    root = parsed(
        timeline_svg([USUAL, view(step("pull", 0, 1000, container="c" * 200, error="e" * 1000), pod="ns/" + "p" * 63)])
    )
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    for each in root.iter(f"{SVG}rect"):
        assert float(each.get("x", "0")) + float(each.get("width", "0")) <= width
        assert float(each.get("y", "0")) + float(each.get("height", "0")) <= height
    for text in root.iter(f"{SVG}text"):
        assert float(text.get("x", "")) + 7.3 * len(text.text or "") * (not text.get("text-anchor")) <= width
        assert float(text.get("y", "")) <= height


def test_picture_needs_nothing_else_and_knows_light_and_dark() -> None:
    text = timeline_svg([USUAL])
    assert "prefers-color-scheme:dark" in text
    assert not re.search(r"href|url\(|<script|@import", text)
    light, dark = text.split("@media")
    used = set(re.findall(r'class="([a-z ]+)"', text)) - {"title"}
    for name in {each for names in used for each in names.split()} - {"title", "running"}:
        assert f".{name}{{" in light and f".{name}{{" in dark, name


@given(st.text(), st.text(), st.text())
def test_text_of_any_kind_is_escaped(pod: str, container: str, error: str) -> None:
    root = parsed(timeline_svg([view(step("start", 0, 1, container=container, error=error), pod=pod)]))
    allowed = {"svg", "title", "style", "rect", "text", "g", "line", "polygon"}
    assert {each.tag.removeprefix(SVG) for each in root.iter()} <= allowed


def test_markup_in_names_stays_text() -> None:
    hostile = "</text><script>alert(1)</script>\x1b\ufffe"
    root = parsed(timeline_svg([view(step("start", 0, 1, container="c"), pod=hostile)]))
    assert texts(root)[0] == "</text><script>alert(1)</script>\\x1b\\ufffe"


def test_step_that_runs_and_pod_that_is_not_ready() -> None:
    text = timeline_svg([view(step("pull", 0, 30, container="app", running=True), ready=False, total_s=30.0)])
    shown = texts(parsed(text))
    assert "30.0 s so far" in shown
    assert "start at 2026-01-01 00:00:00 UTC, not ready after 30.0 s" in shown
    assert 'class="pull running"' in text


def test_similar_starts_share_a_scale_and_others_do_not() -> None:
    short, middle, long = (view(step("sandbox", 0, length)) for length in (1.0, 5.0, 50.0))
    one, two = (width for _, width in bars(parsed(timeline_svg([short, middle])), "sandbox"))
    assert two == pytest.approx(5 * one, abs=0.5)
    one, two = (width for _, width in bars(parsed(timeline_svg([short, long])), "sandbox"))
    assert one == two


def test_timeline_without_steps_says_so() -> None:
    assert "no step was recorded" in texts(parsed(timeline_svg([view(), USUAL])))
    parsed(timeline_svg([]))


def test_every_step_has_a_colour() -> None:
    assert {name for _, _, names in _GROUPS for name in names} == {str(each) for each in Step}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 ms"),
        (0.0054, "5.4 ms"),
        (0.13, "130 ms"),
        (0.9996, "1.00 s"),
        (9.996, "10.0 s"),
        (200, "3 min 20 s"),
        (3700, "1 h 1 min"),
    ],
)
def test_duration_text_has_the_unit_of_its_size(seconds: float, text: str) -> None:
    assert duration(seconds) == text
