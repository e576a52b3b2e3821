"""The node's resolv.conf, which is read again after a change."""

import logging
from pathlib import Path

from msgspec.structs import replace

from pykubelet.kubelet.actuate.cri_messages.config_types import Resolver
from pykubelet.kubelet.actuate.cri_messages.dns import parse_resolv_conf, resolv_conf_fault
from pykubelet.linux.errors import raise_passing

_log = logging.getLogger(__name__)


class ResolvConf:
    """A file of resolv.conf(5) whose content is kept until the file changes."""

    def __init__(self, path: str, cluster_domain: str = "") -> None:
        """``path``: empty if pods do not use it; ``cluster_domain``: it extends the search path of pods."""
        self._path = path
        self._cluster_domain = cluster_domain
        self._kept: tuple[tuple[int, int], Resolver] | None = None

    def read(self) -> Resolver:
        """Return the file's settings; an unreadable file counts as empty and is logged.

        Transient: it cannot be read for the moment. The pod would never resolve a name.
        """
        if not self._path:
            return Resolver(has_file=False)
        try:
            return self._parse()
        except OSError as error:
            raise_passing(error, self._path)
            _log.warning("resolver configuration unreadable", extra={"path": self._path, "error": error.strerror})
            return Resolver()

    def fault(self) -> str | None:
        """Return the problem of the file, for an event of the node; None: it is valid, or not used. Blocks briefly."""
        if not self._path:
            return None
        try:
            parsed = self._parse()
        except OSError as error:
            return f"open {self._path}: {(error.strerror or str(error)).lower()}"
        return resolv_conf_fault(replace(parsed, cluster_domain=self._cluster_domain), self._path)

    def _parse(self) -> Resolver:
        path = Path(self._path)
        stat = path.stat()
        mark = (stat.st_mtime_ns, stat.st_ino)
        if self._kept is None or self._kept[0] != mark:
            self._kept = (mark, parse_resolv_conf(path.read_text(errors="replace")))
        return self._kept[1]
