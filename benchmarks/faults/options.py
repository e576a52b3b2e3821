"""How hard the faults are. Pure."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Options:
    """How hard the faults are."""

    hold: float = 1.0
    """Factor of how long they last."""
    back_off: bool = True
    """Wait for pods that could not start while the fault lasted; or else replace them by new ones when it ends."""
    share: bool = False
    """Keep the pods for the next fault, and count what is left of all of them together."""
    stop_seconds: float = 60.0
    """How long daemons are stopped by SIGSTOP."""
    files: int = 1_000_000
    """That a hostile container makes."""
    log_seconds: float = 20.0
    """How long a container writes 1 GB/min to its log."""
    sessions: int = 500
    """Exec sessions opened and dropped."""
    rewrite_seconds: float = 5.0
    """How long 1,000 manifests a second are rewritten."""

    def changed(self, stop_seconds: float | None, files: int | None) -> "Options":
        """With those that are given."""
        return replace(self, stop_seconds=stop_seconds or self.stop_seconds, files=files or self.files)


SHORT = Options(
    hold=0.5,
    back_off=False,
    share=True,
    stop_seconds=2.0,
    files=10_000,
    log_seconds=2.0,
    sessions=60,
    rewrite_seconds=1.0,
)
"""Mild and quick."""
