"""Lines of CRI log files for tests."""

from datetime import UTC, datetime

from pykubelet.kubelet.types.crilog import LogRecord, parse_record

START = 1_700_000_000


def raw(text: str, *, at: int = 0, stream: str = "stdout", tag: str = "F") -> bytes:
    """Return one line of a log file, ``at`` seconds after the start."""
    stamp = datetime.fromtimestamp(START + at, UTC).strftime("%Y-%m-%dT%H:%M:%S.000000000Z")
    return f"{stamp} {stream} {tag} {text}\n".encode()


def record(text: str, *, at: int = 0, stream: str = "stdout", tag: str = "F") -> LogRecord:
    """Return the same line, parsed."""
    parsed = parse_record(raw(text, at=at, stream=stream, tag=tag))
    assert parsed is not None
    return parsed


def stamp(at: int) -> str:
    """Return the time as it is shown."""
    return raw("", at=at).split(b" ")[0].decode()
