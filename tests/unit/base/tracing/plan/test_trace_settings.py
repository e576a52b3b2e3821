"""Valid and invalid settings of traces."""

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.base.tracing.plan.trace_settings import trace_settings


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("", "localhost:4317"),
        ("collector.example:4317", "collector.example:4317"),
        ("http://10.0.0.1:4317", "10.0.0.1:4317"),
        ("dns:///collector:1", "collector:1"),
        ("[::1]:65535", "[::1]:65535"),
        ("unix:///run/otel.sock", "unix:///run/otel.sock"),
    ],
)
def test_endpoint_of_the_collector_has_a_default_and_no_scheme(given: str, used: str) -> None:
    assert trace_settings(given, 0).endpoint == used


@pytest.mark.parametrize(
    "given",
    [
        "collector",
        ":4317",
        "a:0",
        "a:65536",
        "a:b",
        "unix://",
        "http://a:1/path",
        "https://a:1",
        "a b:1",
        "a:1\n",
        "a" * 9,
    ],
)
def test_wrong_endpoint_is_refused(given: str) -> None:
    with pytest.raises(Invalid, match=r"^endpoint: .* must be HOST:PORT or unix:///PATH"):
        trace_settings(given, 0)


def test_samples_per_million() -> None:
    assert [trace_settings("", each).ratio for each in (0, 1, 1_000_000)] == [0.0, 1e-06, 1.0]
    for wrong in (-1, 1_000_001):
        with pytest.raises(Invalid, match=rf"^samplingRatePerMillion: must be from 0 to 1000000, not {wrong}$"):
            trace_settings("", wrong)
