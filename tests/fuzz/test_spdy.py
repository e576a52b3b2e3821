"""Arbitrary SPDY frames against the streaming server: its buffers stay small, and it serves the next client."""

from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pykubelet.base.http.upgrade import request_head
from pykubelet.base.spdy import Encoder
from pykubelet.base.spdy.frames import Data, Frame, Ping, RstStream, SynStream
from tests.fuzz.hostile_streams import EXAMPLES, Ports, run_attack
from tests.unit.base.spdy.frames import FRAMES


@dataclass(frozen=True)
class OpenStep:
    """Opens a stream with the next stream id."""

    kind: str
    port: str
    request: int
    """Request id of the stream; 0: a new one."""
    padding: int
    fin: bool


@dataclass(frozen=True)
class SendStep:
    """Sends data on one of the last streams."""

    back: int
    size: int
    fin: bool


@dataclass(frozen=True)
class ResetStep:
    """Resets one of the last streams."""

    back: int


@dataclass(frozen=True)
class Burst:
    """Steps that are repeated."""

    steps: list[OpenStep | SendStep | ResetStep | Ping | Frame]
    times: int


_KINDS = ["data", "error", "stdin", "stdout", "resize", "rubbish"]
_BACK = st.integers(0, 3)
_STEPS: st.SearchStrategy[OpenStep | SendStep | ResetStep | Ping | Frame] = st.one_of(
    st.builds(
        OpenStep,
        st.sampled_from(_KINDS),
        st.sampled_from(["echo", "deaf", "closed"]),
        st.integers(0, 2),
        st.sampled_from([0, 0, 100, 8000]),
        st.booleans(),
    ),
    st.builds(SendStep, _BACK, st.sampled_from([0, 1, 2, 1000]), st.booleans()),
    st.builds(ResetStep, _BACK),
    st.builds(Ping, st.integers(0, 100)),
    FRAMES,
)
_TIMES = st.sampled_from([1, 1, 2, 50, 300])
_BURSTS = st.lists(st.builds(Burst, st.lists(_STEPS, min_size=1, max_size=5), _TIMES), max_size=5)


class Script:
    """Encodes bursts as bytes."""

    def __init__(self, ports: Ports) -> None:
        self._encoder = Encoder()
        self._ports = ports
        self._last = 1

    def encode(self, bursts: list[Burst], rubbish: bytes) -> bytes:
        frames = (self._frame(step) for burst in bursts for _ in range(burst.times) for step in burst.steps)
        return b"".join(self._encoder.encode(frame) for frame in frames) + rubbish

    def _frame(self, step: OpenStep | SendStep | ResetStep | Ping | Frame) -> Frame:
        match step:
            case OpenStep():
                self._last += 2
                port = {"echo": self._ports.echo, "deaf": self._ports.deaf, "closed": self._ports.closed}[step.port]
                headers = {"streamtype": step.kind, "port": str(port), "requestid": str(step.request or self._last)}
                if step.padding:
                    headers["padding"] = "x" * step.padding
                return SynStream(self._last, headers, fin=step.fin)
            case SendStep():
                return Data(max(1, self._last - 2 * step.back), b"x" * step.size, step.fin)
            case ResetStep():
                return RstStream(max(1, self._last - 2 * step.back), 5)
            case _:
                return step


def _head(protocol: str, host: str, path: str) -> bytes:
    headers = [("Host", host), ("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")]
    return request_head("POST", path, [*headers, ("X-Stream-Protocol-Version", protocol)])


_RAPID_RESET = [Burst([OpenStep("error", "closed", 0, 8000, False), ResetStep(0)], 1000)]
_PAIR = Burst([OpenStep(kind, "deaf", 1, 0, False) for kind in ("error", "data")], 1)
_UNREAD = [_PAIR, Burst([SendStep(0, 1000, False)], 6000)]
_TINY = [_PAIR, Burst([SendStep(0, 2, False)], 20_000)]
_PINGS = [Burst([Ping(1)], 20_000)]
_SESSION = Burst([OpenStep(kind, "closed", 0, 0, False) for kind in ("error", "stdout", "stdin")], 1)
_TO_OUTPUT = [_SESSION, Burst([SendStep(1, 1000, False)], 6000)]


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(["forward", "exec", "exec-deaf"]), _BURSTS, st.binary(max_size=40), st.booleans())
@example("forward", _RAPID_RESET, b"", False)
@example("forward", _UNREAD, b"", True)
@example("forward", _TINY, b"", True)
@example("forward", _PINGS, b"", False)
@example("exec-deaf", _TO_OUTPUT, b"", False)
def test_spdy_frames_of_any_kind_take_bounded_memory(
    kind: str, bursts: list[Burst], rubbish: bytes, listens: bool
) -> None:
    protocol = "portforward.k8s.io" if kind == "forward" else "v4.channel.k8s.io"
    run_attack(
        kind,
        lambda host, path: _head(protocol, host, path),
        lambda ports: Script(ports).encode(bursts, rubbish),
        listens,
    )
