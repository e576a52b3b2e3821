"""Client of the agent's local API: blocking HTTP over a unix socket, quick to import."""

import http.client
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from pykubelet.base.errors import Conflict, NotFound, Permanent, Transient
from pykubelet.cli.client.rejected_request import RejectedRequest

_TIMEOUT_SECONDS = 30.0


class _UnixConnection(http.client.HTTPConnection):
    """An HTTP connection over a unix socket."""

    def __init__(self, path: Path, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            self.sock.connect(str(self._path))
        except OSError as error:
            self.sock.close()
            raise Transient(
                f"no agent responds at {self._path} ({error.strerror}); "
                "start one with `pykubelet run`, or name its socket with --socket"
            ) from error


class LocalApi:
    """Requests to one agent. Paths are those of the Kubernetes API, and ``/pykubelet/v1/…``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, path: str, **query: object) -> Any:
        """Return the JSON object at the path.

        NotFound, Invalid, Permanent: according to the API's Status. Transient: no agent responds.
        """
        return self._call("GET", path, query)

    def post(self, path: str, **query: object) -> Any:
        """Ask the agent to do something and return the JSON object of its answer. Errors as of :meth:`get`."""
        return self._call("POST", path, query)

    def _call(self, method: str, path: str, query: dict[str, object]) -> Any:
        connection = _UnixConnection(self.path, _TIMEOUT_SECONDS)
        try:
            return json.loads(_request(connection, path, query, method).read() or b"null")
        except (OSError, http.client.HTTPException) as error:
            raise Transient(f"the agent at {self.path} is not responding: {error}") from error
        except ValueError as error:
            raise self._no_json(error) from error
        finally:
            connection.close()

    def _no_json(self, error: Exception) -> Transient:
        return Transient(
            f"the answer from {self.path} is no JSON ({error}): the agent ended, or another program listens there"
        )

    def lines(self, path: str, deadline: float | None = None, /, **query: object) -> Iterator[bytes]:
        """Yield the lines of a streamed answer (watch, logs) as they arrive; ends when the agent ends the answer.

        TimeoutError: the monotonic time ``deadline`` has passed.
        """
        connection = _UnixConnection(self.path, None)
        try:
            response = _request(connection, path, query)
            while line := _line(connection, response, deadline):
                yield line
        except TimeoutError:
            raise
        except (OSError, http.client.HTTPException) as error:
            raise Transient(f"the agent at {self.path} closed the stream early: {error}") from error
        finally:
            connection.close()

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


def _request(
    connection: _UnixConnection, path: str, query: dict[str, object], method: str = "GET"
) -> http.client.HTTPResponse:
    # Compared by identity, because 0 equals False but is a value.
    given = {key: value for key, value in query.items() if value is not None and value is not False and value != ""}
    target = f"{path}?{urlencode(given)}" if given else path
    connection.request(method, target, headers={"Accept": "application/json"})
    response = connection.getresponse()
    if response.status >= 400:
        raise _error(response.status, response.read())
    return response


def _line(connection: _UnixConnection, response: http.client.HTTPResponse, deadline: float | None) -> bytes:
    """Return the next line of an answer; empty at its end. TimeoutError: the deadline has passed."""
    if deadline is not None and connection.sock is not None:
        connection.sock.settimeout(max(0.001, deadline - time.monotonic()))
    return response.readline()


def _error(status: int, body: bytes) -> Exception:
    try:
        message = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        message = body.decode(errors="replace").strip() or f"the agent answered {status}"
    match status:
        case 404:
            return NotFound(message)
        case 409:
            return Conflict(message)
        case 400 | 422:
            return RejectedRequest(message)
        case 429 | 503:
            return Transient(message)
        case _:
            return Permanent(message)
