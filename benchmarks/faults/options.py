"""Options of the faults: durations and sizes. Pure."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Options:
    """Durations and sizes of the faults."""

    hold: float = 1.0
    """Factor on the duration of faults."""
    back_off: bool = True
    """Wait for pods that could not start during the fault; otherwise replace them by new ones when it ends."""
    share: bool = False
    """Keep the pods for the next fault, and count their leftovers in total."""
    stop_seconds: float = 60.0
    """Seconds for which daemons are stopped by SIGSTOP."""
    files: int = 1_000_000
    """Number of files that a hostile container creates."""
    log_seconds: float = 20.0
    """Seconds for which a container writes 1 GB/min to its log."""
    sessions: int = 500
    """Number of exec sessions opened and dropped."""
    rewrite_seconds: float = 5.0
    """Seconds for which 1,000 manifests per second are rewritten."""

    def changed(self, stop_seconds: float | None, files: int | None) -> "Options":
        """A copy with the given values; None: unchanged."""
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
"""Options for a short run."""
