"""How often the kernel has killed in a cgroup because its memory limit was reached."""

from pykubelet.linux.cgroups.convert import flat_keyed
from pykubelet.linux.cgroups.detect import Layout, Mode


class OomCounter:
    """Reads `memory.oom_control` (version 1, Linux 4.13) or `memory.events` (version 2)."""

    def __init__(self, layout: Layout) -> None:
        version2 = layout.mode is Mode.V2
        self._root = layout.unified if version2 else layout.controllers.get("memory")
        self._file = "memory.events" if version2 else "memory.oom_control"

    def kills(self, path: str) -> int:
        """For the cgroup at that path below the hierarchy's root; 0 when it is gone. Blocks shortly."""
        if self._root is None:
            return 0
        try:
            text = (self._root / path.lstrip("/") / self._file).read_text(errors="replace")
        except OSError:
            return 0
        return flat_keyed(text).get("oom_kill", 0)
