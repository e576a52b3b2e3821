"""Errors of the API server: what their answers make of them."""

import pytest

from pykubelet.apiclient.errors import error_of_response
from pykubelet.base.errors import Transient


def _delay(body: bytes, header: str) -> float | None:
    error = error_of_response(503, body, "list pods", header)
    assert isinstance(error, Transient)
    return error.retry_after


@pytest.mark.parametrize(("header", "delay"), [("", None), ("7", 7.0), ("86400", 300.0), ("9" * 400, 300.0)])
def test_retry_after_of_the_header_is_bounded(header: str, delay: float | None) -> None:
    """A watch would wait for as long as it is told, and the node would hear of no change meanwhile."""
    assert _delay(b"busy", header) == delay


@pytest.mark.parametrize(("seconds", "delay"), [("7", 7.0), ("2147483647", 300.0)])
def test_retry_after_of_a_status_is_bounded(seconds: str, delay: float) -> None:
    body = f'{{"kind": "Status", "apiVersion": "v1", "details": {{"retryAfterSeconds": {seconds}}}}}'
    assert _delay(body.encode(), "") == delay


@pytest.mark.parametrize(("field", "length"), [("message", 4096), ("message", 4097), ("reason", 10_000_000)])
def test_message_of_an_error_is_bounded(field: str, length: int) -> None:
    body = f'{{"kind": "Status", "apiVersion": "v1", "{field}": "{"x" * length}"}}'
    said = str(error_of_response(500, body.encode(), "list pods"))
    assert said == "list pods: " + "x" * min(length, 4096) + ("…" if length > 4096 else "")
