"""The pulls that are running, with their progress, for clients that did not start them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from pykubelet.base.clock import Clock
from pykubelet.base.units import Bytes, Seconds
from pykubelet.criserver.images.image_types import OnProgress, Phase, Progress

_MAX_LISTED = 100


class _Pull:
    """The progress of one pull."""

    def __init__(self, name: str) -> None:
        self.whole = Progress(name, "", Phase.RESOLVING)
        self.layers: dict[str, Progress] = {}
        self.fetched = 0

    def note(self, step: Progress) -> None:
        """Take a step. The layers of a manifest are counted, so this cannot grow without limit."""
        if step.layer:
            before = self.layers.get(step.layer)
            if step.phase is Phase.DOWNLOADING and before is not None and before.phase is Phase.DOWNLOADING:
                self.fetched += max(0, step.done - before.done)  # the first step tells what was here already
            self.layers[step.layer] = step
        else:
            self.whole = step

    def summary(self) -> Progress:
        """The pull as a whole: unpacking once all layers are here, downloading before."""
        if self.whole.phase is not Phase.RESOLVED or not self.layers:
            return self.whole
        done = Bytes(sum(step.done for step in self.layers.values()))
        phase = Phase.UNPACKING if done >= self.whole.total else Phase.DOWNLOADING
        return replace(self.whole, phase=phase, done=done)


class RunningPulls:
    """The pulls that are running."""

    def __init__(self, clock: Clock, on_end: Callable[[Bytes, Seconds], None] | None = None) -> None:
        """``on_end`` gets the bytes that a pull has fetched, and its duration."""
        self._clock = clock
        self._on_end = on_end
        self._pulls: dict[int, _Pull] = {}

    @contextmanager
    def follow(self, name: str, on_progress: OnProgress) -> Iterator[OnProgress]:
        """Record a pull while the block runs; the steps go to the yielded function, which passes them on."""
        pull, begun = _Pull(name), self._clock.monotonic()
        self._pulls[id(pull)] = pull

        def note(step: Progress) -> None:
            pull.note(step)
            on_progress(step)

        try:
            yield note
        finally:
            self._pulls.pop(id(pull), None)
            if self._on_end is not None:
                self._on_end(Bytes(pull.fetched), self._clock.monotonic() - begun)

    def list(self) -> list[Progress]:
        """The pulls as wholes, oldest first, at most 100."""
        return [pull.summary() for pull in list(self._pulls.values())[:_MAX_LISTED]]
