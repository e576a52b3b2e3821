"""Stop signals: converts between names of the API (``SIGRTMIN+1``) and numbers of CRI (KEP-4960)."""

from pykubelet.kubelet.actuate.cri_messages.config_types import container_error
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.pb import runtime_v1_pb2 as pb


def _api_name(name: str) -> str:
    return name.replace("PLUS", "+").replace("MINUS", "-")


_NUMBERS = {_api_name(name): number for name, number in pb.Signal.items() if number != pb.RUNTIME_DEFAULT}
_NAMES = {number: name for name, number in _NUMBERS.items()}


def stop_signal(container: AnyContainer) -> pb.Signal.ValueType:
    """Stop signal of the spec; RUNTIME_DEFAULT (the image's, or SIGTERM) without one. Raises ConfigError."""
    name = container.lifecycle.stop_signal if container.lifecycle else ""
    if not name:
        return pb.RUNTIME_DEFAULT
    number = _NUMBERS.get(name)
    if number is None:
        raise container_error(f'lifecycle.stopSignal "{name}" is not the name of a signal, such as SIGTERM')
    return number


def signal_name(number: int) -> str:
    """API name of a signal that the runtime reports; empty for none."""
    return _NAMES.get(pb.Signal.ValueType(number), "")
