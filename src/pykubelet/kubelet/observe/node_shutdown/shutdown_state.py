"""The file that keeps the times of the last graceful shutdown across the reboot, in the Go kubelet's format."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from pykubelet.base.files.atomic import write_atomic
from pykubelet.base.files.state_files import clear_path, read_state_file
from pykubelet.base.units import Seconds

FILE_NAME: Final = "graceful_node_shutdown_state"
"""Name of the file in the agent's root directory."""
_LIMIT: Final = 4096
_ZERO: Final = datetime(1, 1, 1, tzinfo=UTC)
"""Go's zero time: not yet."""


class ShutdownTimes(msgspec.Struct, frozen=True):
    """Begin and end of the last shutdown, in Unix time; 0: not yet, or there was none."""

    start: Seconds = 0.0
    end: Seconds = 0.0


class _State(msgspec.Struct, frozen=True, rename="camel"):
    start_time: datetime = _ZERO
    end_time: datetime = _ZERO


_decoder: Final = msgspec.json.Decoder(_State)


def write_times(path: Path, times: ShutdownTimes) -> None:
    """Replace the file durably. Blocks; raises OSError."""
    clear_path(path)
    state = _State(_written(times.start), _written(times.end))
    write_atomic(path, msgspec.json.encode(state), 0o644, durable=True)


def read_times(path: Path) -> ShutdownTimes:
    """Read the file; a missing one gives zeros. Blocks; raises Invalid if it is damaged, and OSError."""
    try:
        state = read_state_file(path, _LIMIT, _decoder.decode)
    except FileNotFoundError:
        return ShutdownTimes()
    return ShutdownTimes(_read(state.start_time), _read(state.end_time))


def _written(time: Seconds) -> datetime:
    return datetime.fromtimestamp(time, UTC) if time else _ZERO


def _read(time: datetime) -> Seconds:
    return max(time.timestamp(), 0.0) if time.tzinfo is not None else 0.0
