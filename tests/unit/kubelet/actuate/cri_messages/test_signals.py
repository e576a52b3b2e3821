"""Stop signals."""

import pytest

from pykubelet.kubelet.actuate.cri_messages.config_types import ConfigError
from pykubelet.kubelet.actuate.cri_messages.signals import signal_name, stop_signal
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.kubelet.actuate.cri_messages.build import make_container


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("SIGTERM", pb.SIGTERM),
        ("SIGUSR1", pb.SIGUSR1),
        ("SIGRTMIN", pb.SIGRTMIN),
        ("SIGRTMIN+15", pb.SIGRTMINPLUS15),
        ("SIGRTMAX-14", pb.SIGRTMAXMINUS14),
    ],
)
def test_stop_signal_is_converted_to_its_number_and_back(name: str, number: pb.Signal.ValueType) -> None:
    assert stop_signal(make_container(lifecycle={"stopSignal": name})) == number
    assert signal_name(number) == name


def test_stop_signal_that_is_unset_is_the_runtimes_default() -> None:
    assert stop_signal(make_container()) == pb.RUNTIME_DEFAULT
    assert stop_signal(make_container(lifecycle={})) == pb.RUNTIME_DEFAULT
    assert signal_name(pb.RUNTIME_DEFAULT) == ""
    assert signal_name(999) == ""


@pytest.mark.parametrize("name", ["TERM", "SIGNOPE", "RUNTIME_DEFAULT", "15", "SIGRTMINPLUS1"])
def test_stop_signal_of_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"lifecycle\.stopSignal"):
        stop_signal(make_container(lifecycle={"stopSignal": name}))
