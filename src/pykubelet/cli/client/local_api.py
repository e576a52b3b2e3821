"""Client of the agent's local API: blocking HTTP over a unix socket, quick to import."""

import json
import socket
import time
from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, PykubeletError, Transient
from pykubelet.cli.client.http_exchange import Answer, BadAnswer, answered
from pykubelet.cli.client.rejected_request import RejectedRequest

if TYPE_CHECKING:
    from pathlib import Path

_TIMEOUT_SECONDS = 30.0
_CHANGE_SECONDS = 60.0
"""Limit of a request with a body; the agent may have to wait for another change."""

_LONGEST_SECONDS = 2_000_000.0
"""Longest limit of a read; Python waits wrongly with one of 2^31 ms. A later deadline is checked at each line."""


class NoPermission(Permanent):
    """The user may not use the agent's socket."""


class LocalApi:
    """Requests to one agent. Paths are those of the Kubernetes API, and ``/pykubelet/v1/…``."""

    def __init__(self, path: "str | PathLike[str]") -> None:
        self._socket = fspath(path)

    @property
    def path(self) -> "Path":
        """The agent's socket."""
        from pathlib import Path  # takes milliseconds, and few commands ask

        return Path(self._socket)

    def get(self, path: str, **query: object) -> Any:
        """Return the JSON object at the path.

        NotFound, Invalid, Permanent: according to the API's Status. Transient: no agent responds.
        """
        return self._call("GET", path, query)

    def post(self, path: str, body: bytes = b"", /, **query: object) -> Any:
        """Ask the agent to do something and return the JSON object of its answer. Errors as of :meth:`get`.

        ``body`` is a JSON text.
        """
        return self._call("POST", path, query, body)

    def _call(self, method: str, path: str, query: dict[str, object], body: bytes = b"") -> Any:
        with self._connected(_CHANGE_SECONDS if body else _TIMEOUT_SECONDS) as connection:
            try:
                with answered(connection, method, target_of(path, query), body) as answer:
                    return json.loads(_checked(answer).read() or b"null")
            except (OSError, BadAnswer) as error:
                raise Transient(f"the agent at {self._socket} is not responding: {error}") from error
            except ValueError as error:
                raise self._no_json(error) from error

    def _connected(self, seconds: float | None) -> socket.socket:
        """Return a connection to the agent; ``seconds`` limits each read and write.

        Transient: no agent responds. NoPermission: only another user may connect.
        """
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(seconds)
            connection.connect(self._socket)
        except PermissionError as error:
            connection.close()
            raise NoPermission(
                f"no permission to connect to the agent at {self._socket}; run the command as root, as with sudo"
            ) from error
        except OSError as error:
            connection.close()
            raise Transient(
                f"no agent responds at {self._socket} ({error.strerror or error}); "
                "start one with `pykubelet run`, or name its socket with --socket"
            ) from error
        return connection

    def _no_json(self, error: Exception) -> Transient:
        return Transient(
            f"the answer from {self._socket} is no JSON ({error}): the agent ended, or another program listens there"
        )

    def lines(self, path: str, deadline: float | None = None, /, **query: object) -> Iterator[bytes]:
        """Yield the lines of a streamed answer (watch, logs) as they arrive; ends when the agent ends the answer.

        TimeoutError: the monotonic time ``deadline`` has passed.
        """
        with self._connected(None) as connection:
            try:
                with answered(connection, "GET", target_of(path, query)) as answer:
                    _checked(answer)
                    while line := _line(connection, answer, deadline):
                        yield line
            except TimeoutError:
                raise
            except (OSError, BadAnswer) as error:
                why = f"was stopped or restarted while it answered ({error}); repeat the command"
                raise Transient(f"the agent at {self._socket} {why}") from error

    def watch(self, path: str, deadline: float | None = None, /, **query: object) -> Iterator[tuple[str, Any]]:
        """Yield type and object of each event of a watch, beginning with the present objects.

        TimeoutError: the monotonic time ``deadline`` has passed.
        """
        for line in self.lines(path, deadline, watch="true", **query):
            try:
                event = json.loads(line)
                change = event["type"], event["object"]
            except (ValueError, LookupError, TypeError) as error:
                raise self._no_json(error) from error
            yield change


def _checked(answer: Answer) -> Answer:
    if answer.status >= 400:
        raise error_of(answer.status, answer.read())
    return answer


def target_of(path: str, query: Mapping[str, object]) -> str:
    """Return path and query of a request; values that are None, False or empty are left out."""
    # Compared by identity, because 0 equals False but is a value.
    given = {key: value for key, value in query.items() if value is not None and value is not False and value != ""}
    if not given:
        return path
    from urllib.parse import urlencode  # many requests have no query

    return f"{path}?{urlencode(given)}"


def _line(connection: socket.socket, answer: Answer, deadline: float | None) -> bytes:
    """Return the next line of an answer; empty at its end. TimeoutError: the deadline has passed."""
    if deadline is not None:
        left = max(0.001, deadline - time.monotonic())
        connection.settimeout(left if left < _LONGEST_SECONDS else None)
    return answer.readline()


def error_of(status: int, body: bytes) -> PykubeletError:
    """Return the error for an answer of the agent: its HTTP status (400 or higher) and its body, a Status object.

    Invalid: the agent names a parameter of the request as wrong, which the user has given. RejectedRequest: the agent
    cannot do what was requested.
    """
    wrong_parameter = False
    try:
        answer = json.loads(body)
        message = str(answer["message"])
        wrong_parameter = any(cause.get("field") for cause in (answer.get("details") or {}).get("causes") or ())
    except (ValueError, KeyError, TypeError, AttributeError):
        message = body.decode(errors="replace").strip() or f"the agent answered {status}"
    match status:
        case 404:
            return NotFound(message)
        case 409:
            return Conflict(message)
        case 400 | 422:
            return Invalid(message) if wrong_parameter else RejectedRequest(message)
        case 429 | 503:
            return Transient(message)
        case _:
            return Permanent(message)
