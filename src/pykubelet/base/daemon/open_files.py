"""The limit of open files: of this process and what it runs, and of the daemons that it starts."""

import resource
from contextlib import suppress
from typing import Final

_KIND: Final = resource.RLIMIT_NOFILE
_FIRST: Final = resource.getrlimit(_KIND)
"""Soft and hard limit with which this process began."""


def limit_open_files(wanted: int) -> int:
    """Limit the number of files that this process, and what it runs, may have open; return the limit in force.

    To raise the hard limit needs CAP_SYS_RESOURCE, and is possible up to the sysctl fs.nr_open; if it fails, the hard
    limit is in force.
    """
    hard = resource.getrlimit(_KIND)[1]
    try:
        resource.setrlimit(_KIND, (wanted, hard if hard == resource.RLIM_INFINITY else max(wanted, hard)))
    except (ValueError, OSError):
        resource.setrlimit(_KIND, (hard, hard))
    return resource.getrlimit(_KIND)[0]


def give_first_limit(pid: int) -> None:
    """Give a child the limit with which this process began. Nothing happens if the child has ended."""
    with suppress(ProcessLookupError):
        resource.prlimit(pid, _KIND, _FIRST)
