"""Signals by name."""

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.criserver.spec.signals import signal_number, signal_value, stop_signal
from pykubelet.pb import runtime_v1_pb2 as pb


@pytest.mark.parametrize(
    ("name", "number"),
    [("SIGTERM", 15), ("term", 15), ("9", 9), ("SIGRTMIN+3", 37), ("RTMAX-1", 63), ("SIGRTMAX", 64)],
)
def test_signal_names_and_numbers_are_parsed(name: str, number: int) -> None:
    assert signal_number(name) == number


@pytest.mark.parametrize("name", ["", "SIGNOPE", "0", "65", "SIGRTMIN+99", "SIGTERM+x"])
def test_unknown_signals_are_invalid(name: str) -> None:
    with pytest.raises(Invalid):
        signal_number(name)


def test_stop_signal_of_request_overrides_image_and_default() -> None:
    assert stop_signal(pb.ContainerConfig(stop_signal=pb.SIGRTMINPLUS3), "SIGINT") == "SIGRTMIN+3"
    assert stop_signal(pb.ContainerConfig(), "SIGINT") == "SIGINT"
    assert stop_signal(pb.ContainerConfig(), "") == "SIGTERM"


def test_every_cri_signal_is_converted_both_ways() -> None:
    for value in pb.Signal.DESCRIPTOR.values:
        if value.number:
            name = stop_signal(pb.ContainerConfig(stop_signal=pb.Signal.ValueType(value.number)), "")
            assert signal_number(stop_signal(pb.ContainerConfig(stop_signal=signal_value(name)), "")) == signal_number(
                name
            )
    assert signal_value("nonsense") == pb.RUNTIME_DEFAULT


@pytest.mark.parametrize("name", ["1" * 5000, "SIGRTMIN+" + "9" * 5000, "SIG", "+", "-1", "\0", "²"])
def test_malformed_signal_name_is_invalid(name: str) -> None:
    with pytest.raises(Invalid, match="unknown signal"):
        signal_number(name)


@pytest.mark.parametrize("value", [-(2**31), 7777, 2**31 - 1])
def test_stop_signal_unknown_number_is_invalid(value: int) -> None:
    config = pb.ContainerConfig()
    config.stop_signal = value  # type: ignore[assignment]  # as a newer client may send it
    with pytest.raises(Invalid, match=f"unknown stop signal {value}"):
        stop_signal(config, "")
