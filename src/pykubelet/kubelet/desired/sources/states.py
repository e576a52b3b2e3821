"""Records the state of every manifest for the CLI, and reports new problems."""

import logging
from collections.abc import Iterable
from typing import Final

from pykubelet.kubelet.desired.manifest.manifest_types import Problem
from pykubelet.kubelet.desired.sources.source_types import ManifestState
from pykubelet.kubelet.types.reports.events import WARNING, EventRecorder, Reason
from pykubelet.kubelet.types.updates import Source

_log = logging.getLogger(__name__)
_SHOWN: Final = 3


class ManifestStates:
    """The states of all manifests. A problem is logged and recorded as an event once, until it changes."""

    def __init__(self, events: EventRecorder) -> None:
        self._events = events
        self._states: dict[Source, dict[str, ManifestState]] = {}

    def replace(self, source: Source, states: Iterable[ManifestState]) -> None:
        """Replace the states of all manifests of a source."""
        before = self._states.get(source, {})
        after = {state.origin: state for state in states}
        self._states[source] = after
        for origin, state in after.items():
            old = before[origin].problems if origin in before else ()
            if state.problems == old:
                continue
            if state.problems:
                self._report(state)
            else:
                _log.info("manifest: valid again", extra={"manifest": origin})

    def states(self) -> tuple[ManifestState, ...]:
        """Return the states of all manifests."""
        return tuple(state for states in self._states.values() for state in states.values())

    def problems(self) -> tuple[Problem, ...]:
        """Return all current problems."""
        return tuple(problem for state in self.states() for problem in state.problems)

    def _report(self, state: ManifestState) -> None:
        kept = [str(key) for key in state.kept]
        for problem in state.problems[:_SHOWN]:
            _log.warning("manifest: invalid", extra={"manifest": state.origin, "problem": str(problem), "kept": kept})
        text = ". ".join(str(problem) for problem in state.problems[:_SHOWN])
        if len(state.problems) > _SHOWN:
            text += f". And {len(state.problems) - _SHOWN} more: run 'pykubelet check {state.origin}'"
        if kept:
            text += f". The version before stays in force for {', '.join(kept)}"
        self._events.event(None, WARNING, Reason.FAILED_VALIDATION, text)
