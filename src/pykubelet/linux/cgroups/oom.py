"""The number of OOM kills in a cgroup."""

from pykubelet.linux.cgroups.convert import flat_keyed
from pykubelet.linux.cgroups.detect import Layout, Mode


class OomCounter:
    """Reads the OOM kills from `memory.oom_control` (version 1, Linux 4.13) or `memory.events` (version 2)."""

    def __init__(self, layout: Layout) -> None:
        version2 = layout.mode is Mode.V2
        self._root = layout.unified if version2 else layout.controllers.get("memory")
        self._file = "memory.events" if version2 else "memory.oom_control"

    def kills(self, path: str) -> int:
        """OOM kills in the cgroup at that path below the hierarchy's root; 0 if it does not exist. Blocks briefly."""
        if self._root is None:
            return 0
        try:
            text = (self._root / path.lstrip("/") / self._file).read_text(errors="replace")
        except OSError:
            return 0
        return flat_keyed(text).get("oom_kill", 0)
