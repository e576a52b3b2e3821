"""The registry of manifests: what the CLI sees, and what is told once."""

import logging

import pytest

from pykubelet.kubelet.desired.manifest import ObjectKey, Problem
from pykubelet.kubelet.desired.sources import ManifestState, ManifestStates
from pykubelet.kubelet.types.updates import Source
from tests.unit.kubelet.desired.sources.samples import FakeEvents

KEY = ObjectKey("Pod", "default", "a")


def state(origin: str, *messages: str, kept: tuple[ObjectKey, ...] = ()) -> ManifestState:
    return ManifestState(Source.FILE, origin, (KEY,), kept, tuple(Problem(origin, message) for message in messages))


def test_problem_is_reported_once_until_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    events = FakeEvents()
    states = ManifestStates(events)
    states.replace(Source.FILE, [state("/a"), state("/b", "is broken", kept=(KEY,))])
    states.replace(Source.FILE, [state("/a"), state("/b", "is broken", kept=(KEY,))])
    assert events.messages == [
        ("FailedValidation", "/b: is broken. The version before stays in force for Pod default/a")
    ]
    states.replace(Source.FILE, [state("/a"), state("/b", "is worse")])
    assert len(events.messages) == 2
    assert [problem.message for problem in states.problems()] == ["is worse"]
    states.replace(Source.FILE, [state("/a"), state("/b")])
    assert states.problems() == ()
    assert "manifest: valid again" in [record.message for record in caplog.records]
    assert len(events.messages) == 2


def test_many_problems_make_one_short_event() -> None:
    events = FakeEvents()
    ManifestStates(events).replace(Source.FILE, [state("/b", *(f"p{number}" for number in range(50)))])
    ((_, message),) = events.messages
    assert message == "/b: p0. /b: p1. /b: p2. And 47 more: run 'pykubelet check /b'"


def test_states_are_replaced_by_source() -> None:
    states = ManifestStates(FakeEvents())
    states.replace(Source.FILE, [state("/a"), state("/b")])
    states.replace(Source.HTTP, [state("http://x")])
    states.replace(Source.FILE, [state("/b")])
    assert [each.origin for each in states.states()] == ["/b", "http://x"]
