"""The client of the local API, in front of agents that end or are none."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, Transient
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.client.rejected_request import RejectedRequest

_HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
_ADDED = b'{"type": "ADDED", "object": {"a": 1}}\n'


@contextmanager
def _answering(path: Path, answer: bytes) -> Iterator[LocalApi]:
    """A program that gives this answer to one request, and ends."""

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(answer)

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield LocalApi(path)
        finally:
            thread.join()


@pytest.mark.parametrize("body", [b"rubbish", b'{"half": ', b"\xff\xfe"])
def test_answer_that_is_no_json_is_an_error_with_the_socket(tmp_path: Path, body: bytes) -> None:
    with _answering(tmp_path / "s", _HEAD + body) as api, pytest.raises(Transient, match=r"/s is no JSON"):
        api.get("/version")


@pytest.mark.parametrize("code", ["400 Bad Request", "422 Unprocessable Entity"])
@pytest.mark.parametrize("named", [True, False])
def test_wrong_parameter_is_distinguished_from_what_the_agent_cannot_do(tmp_path: Path, code: str, named: bool) -> None:
    details = {"details": {"causes": [{"field": "labelSelector"}]}} if named else {"details": None}
    answer = f"HTTP/1.1 {code}\r\nConnection: close\r\n\r\n{json.dumps({'message': 'why', **details})}"
    with _answering(tmp_path / "s", answer.encode()) as api, pytest.raises(Invalid, match=r"^why$") as raised:
        api.get("/pods", labelSelector="a b")
    assert isinstance(raised.value, RejectedRequest) is not named


@pytest.mark.parametrize("rest", [b'{"type": "MODI', b"[]\n", b"{}\n", b"1\n"])
def test_watch_that_breaks_off_in_a_line_is_an_error_after_the_events_before_it(tmp_path: Path, rest: bytes) -> None:
    with _answering(tmp_path / "s", _HEAD + _ADDED + rest) as api:
        events = api.watch("/pods")
        assert next(events) == ("ADDED", {"a": 1})
        with pytest.raises(Transient, match=r"/s is no JSON"):
            next(events)


@pytest.mark.parametrize("seconds", [2**32 / 1000, 2**63 / 1e9, float("inf")])
def test_watch_with_a_very_long_time_limit_ends_with_the_answer(tmp_path: Path, seconds: float) -> None:
    with _answering(tmp_path / "s", _HEAD + _ADDED) as api:
        assert list(api.watch("/pods", time.monotonic() + seconds)) == [("ADDED", {"a": 1})]


def test_answer_of_an_agent_that_is_stopped_says_so(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with _answering(tmp_path / "s", head + b"%x\r\n%b\r\n" % (len(_ADDED), _ADDED)) as api:
        lines = api.lines("/log")
        assert next(lines) == _ADDED
        with pytest.raises(Transient, match=r"/s was stopped or restarted while it answered .*; repeat the command$"):
            next(lines)


def test_watch_that_ends_between_lines_ends(tmp_path: Path) -> None:
    with _answering(tmp_path / "s", _HEAD + _ADDED) as api:
        assert list(api.watch("/pods")) == [("ADDED", {"a": 1})]
