"""A container's last words: the termination message, or the end of its log in its place.

The pod runtime reads the files; here it is decided which of them count and how much.
"""

from pykubelet.kubelet.types.crilog import last_lines, parse_records

MAX_FILE_BYTES = 4 * 1024
"""So much of the end of a termination message file is read."""
MAX_LOG_BYTES = 2 * 1024
MAX_LOG_LINES = 80
LOG_TAIL_BYTES = 64 * 1024
"""So much of the end of a log file is enough to find that many bytes: runtimes cut lines at 16 KiB."""
_FALLBACK = "FallbackToLogsOnError"
_CANNOT_RUN = "ContainerCannotRun"


def wants_log(policy: str, exit_code: int, reason: str, file: bytes | None) -> bool:
    """Whether the end of the log stands in for the message: by the policy, after a failure, if nothing was written.

    `file` is what the termination message file holds, None if there is none. A container that never ran has no
    log.
    """
    return policy == _FALLBACK and exit_code != 0 and reason != _CANNOT_RUN and not file


def termination_message(runtime_message: str, file: bytes | None, log_tail: bytes | None = None) -> str:
    """What the terminated container shows: the runtime's message and the container's own.

    `log_tail` is the end of its log file where :func:`wants_log` said so.
    """
    own = file[-MAX_FILE_BYTES:] if file else b""
    if not own and log_tail:
        own = log_end(log_tail)
    return ": ".join(filter(None, (runtime_message, own.decode("utf-8", "replace"))))


def log_end(log_tail: bytes) -> bytes:
    """The last output in the end of a log file, both streams: 80 lines, 2 KiB at most."""
    output = b"".join(record.output for record in parse_records(last_lines(log_tail, MAX_LOG_LINES)))
    return output[-MAX_LOG_BYTES:]
