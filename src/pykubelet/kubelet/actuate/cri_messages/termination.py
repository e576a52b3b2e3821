"""Termination message of a container, or the end of its log as a fallback. Pure.

The pod runtime reads the files; this module decides which of them are used, and how many bytes.
"""

from pykubelet.kubelet.types.crilog import last_lines, parse_records

MAX_FILE_BYTES = 4 * 1024
"""Number of bytes read from the end of a termination message file."""
MAX_LOG_BYTES = 2 * 1024
MAX_LOG_LINES = 80
LOG_TAIL_BYTES = 64 * 1024
"""Number of bytes at the end of a log file that contain this output: runtimes cut lines at 16 KiB."""
_FALLBACK = "FallbackToLogsOnError"
_CANNOT_RUN = "ContainerCannotRun"


def wants_log(policy: str, exit_code: int, reason: str, file: bytes | None) -> bool:
    """Whether the end of the log replaces the message: by the policy, after a failure, if the file is empty.

    `file` is the content of the termination message file, None if it does not exist. A container that never ran has no
    log.
    """
    return policy == _FALLBACK and exit_code != 0 and reason != _CANNOT_RUN and not file


def termination_message(runtime_message: str, file: bytes | None, log_tail: bytes | None = None) -> str:
    """Message of the terminated container: the runtime's message and the container's own.

    `log_tail` is the end of its log file if :func:`wants_log` returned true.
    """
    own = file[-MAX_FILE_BYTES:] if file else b""
    if not own and log_tail:
        own = log_end(log_tail)
    return ": ".join(filter(None, (runtime_message, own.decode("utf-8", "replace"))))


def log_end(log_tail: bytes) -> bytes:
    """Last output of both streams at the end of a log file: at most 80 lines and 2 KiB."""
    output = b"".join(record.output for record in parse_records(last_lines(log_tail, MAX_LOG_LINES)))
    return output[-MAX_LOG_BYTES:]
