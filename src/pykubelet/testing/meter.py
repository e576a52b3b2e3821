"""A fake of ``types.work_meter.WorkMeter`` that records its calls without their durations."""

from dataclasses import dataclass, field

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.reports.work_meter import StoragePlugin


@dataclass
class RecordingMeter:
    """A meter that records one line for each operation, in order."""

    lines: list[str] = field(default_factory=list)

    def cgroup_operation(self, operation: str, seconds: Seconds) -> None:
        self.lines.append(f"cgroup {operation}")

    def sandbox(self, handler: str, seconds: Seconds, failed: bool) -> None:
        self.lines.append(f"sandbox {handler or '-'} {_end(failed)}")

    def image_volumes(self, number: int, failed: bool) -> None:
        self.lines.append(f"images {number} {_end(failed)}")

    def storage_operation(self, plugin: StoragePlugin, operation: str, seconds: Seconds, failed: bool) -> None:
        self.lines.append(f"{operation} {plugin.name} {_end(failed)}")

    def volume_mounted(self, plugin: str, seconds: Seconds) -> None:
        self.lines.append(f"mounted {plugin} after {seconds:g}")

    def pod_resized(self, seconds: Seconds, failed: bool) -> None:
        self.lines.append(f"resized {_end(failed)}")

    def hook_fell_back(self) -> None:
        self.lines.append("hook fell back")

    def hook_sleep_ended(self) -> None:
        self.lines.append("hook sleep ended")


def _end(failed: bool) -> str:
    return "failed" if failed else "done"
