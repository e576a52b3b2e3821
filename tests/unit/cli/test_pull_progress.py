"""The progress of pulls in a watch of pods."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykubelet.base.errors import Transient
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.output import pull_progress
from pykubelet.cli.output.pull_progress import long_text, pull_of, waiting_images, watch_with_pulls

_PULL: dict[str, Any] = {
    "image": "docker.io/library/app:1",
    "phase": "downloading",
    "done": 12_300_000,
    "total": 27_100_000,
}


def _pod(image: str = "app:1", state: str = "waiting") -> dict[str, Any]:
    status = {"phase": "Pending", "containerStatuses": [{"image": image, "state": {state: {"reason": "x"}}}]}
    return {"metadata": {"uid": "u", "name": "web"}, "status": status}


def test_pull_is_found_by_the_name_that_the_pod_uses() -> None:
    pulls = {_PULL["image"]: _PULL}
    assert pull_of("app:1", pulls) is _PULL
    assert pull_of("app", pulls) is None and pull_of("NOT//a:name", pulls) is None
    assert long_text(_PULL) == "downloading 12.3MB of 27.1MB (45%)"
    assert long_text({"phase": "resolving"}) == "resolving"
    assert waiting_images(_pod()) == ["app:1"] and waiting_images(_pod(state="running")) == []


def test_watch_shows_each_tenth_once_while_the_pod_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[int | None] = [None, 0, 45, 49, 61]
    go_on = threading.Event()

    def running(_: LocalApi) -> dict[str, Any]:
        if not answers:
            go_on.set()
            return {}
        done = answers.pop(0)
        pull = {"phase": "downloading", "done": done, "total": 100}
        return {} if done is None else {"docker.io/library/app:1": pull}

    def events() -> Iterator[tuple[str, Any]]:
        yield "ADDED", _pod()
        assert go_on.wait(60)
        yield "MODIFIED", _pod(state="running")

    monkeypatch.setattr(pull_progress, "running_pulls", running)
    seen = [
        (kind, pod["status"].get("reason", "")) for kind, pod in watch_with_pulls(events(), LocalApi(Path("/x")), 0.01)
    ]
    assert seen == [
        ("ADDED", ""),
        ("PULL", "Pulling 0%"),
        ("PULL", "Pulling 40%"),
        ("PULL", "Pulling 60%"),
        ("MODIFIED", ""),
    ]


def test_error_of_the_watch_is_raised() -> None:
    def events() -> Iterator[tuple[str, Any]]:
        yield "ADDED", _pod(state="running")
        raise Transient("the agent closed the stream early")

    seen = watch_with_pulls(events(), LocalApi(Path("/x")))
    assert next(seen)[0] == "ADDED"
    with pytest.raises(Transient, match="closed the stream"):
        next(seen)
