"""Notes which files the event loop's own thread uses: on a disk that hangs, each would stop all tasks."""

import io
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

_OF_OS: Final = (
    *("chmod", "chown", "link", "listdir", "lstat", "mkdir", "mkfifo", "open", "readlink", "remove", "rename"),
    *("replace", "rmdir", "scandir", "stat", "statvfs", "symlink", "unlink", "utime"),
)


@contextmanager
def files_in_loop(directory: Path) -> Iterator[list[str]]:
    """Yield a list to which each file operation of this thread at or below ``directory`` in the block is added.

    An entry is the name of the operation and the path relative to the directory. Use it in the event loop's thread.
    """
    thread, seen = threading.get_ident(), list[str]()

    def noting(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def noted(path: Any, *args: Any, **named: Any) -> Any:
            if threading.get_ident() == thread and not isinstance(path, int):
                place = Path(os.fsdecode(path))
                if place.is_relative_to(directory):
                    seen.append(f"{name} {place.relative_to(directory)}")
            return operation(path, *args, **named)

        return noted

    with ExitStack() as stack:
        for name in _OF_OS:
            stack.enter_context(patch.object(os, name, noting(name, getattr(os, name))))
        stack.enter_context(patch.object(io, "open", noting("open", io.open)))
        yield seen
