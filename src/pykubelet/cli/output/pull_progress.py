"""Progress of the pulls that pods wait for, in ``describe`` and ``get pods -w``.

Only pykubelet's own runtime server reports progress; with another runtime there is nothing to show.
"""

import queue
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pykubelet.base.errors import PykubeletError
from pykubelet.base.image_reference import InvalidReference, parse
from pykubelet.base.units import Seconds
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.plan.columns import size

_STEP_PERCENT = 10
_GROUPS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
PULLED = "PULL"
"""Type of the events that `watch_with_pulls` adds."""

Pulls = Mapping[str, Mapping[str, Any]]
"""Running pulls by the image's full reference."""


def running_pulls(api: LocalApi) -> Pulls:
    """Return the running pulls of the agent's runtime; none if it does not report them."""
    try:
        return {str(pull["image"]): pull for pull in api.get("/pykubelet/v1/pulls")["items"]}
    except (PykubeletError, LookupError, TypeError):
        return {}


def pull_of(image: str, pulls: Pulls) -> Mapping[str, Any] | None:
    """Return the pull of an image as a pod names it."""
    try:
        return pulls.get(str(parse(image)))
    except InvalidReference:
        return None


def long_text(pull: Mapping[str, Any]) -> str:
    """Return the progress of a pull: ``downloading 12.3MB of 27.1MB (45%)``."""
    done, total = int(pull.get("done", 0)), int(pull.get("total", 0))
    extent = f" {size(done)} of {size(total)} ({percent(pull)}%)" if total else ""
    return f"{pull.get('phase', '')}{extent}"


def percent(pull: Mapping[str, Any]) -> int:
    """Return how much of a pull's data is here; 0 while its size is unknown."""
    total = int(pull.get("total", 0))
    return min(100, 100 * int(pull.get("done", 0)) // total) if total else 0


def waiting_images(pod: Mapping[str, Any]) -> list[str]:
    """Return the images of the containers that wait to be created."""
    status = pod.get("status", {})
    waiting = [each for group in _GROUPS for each in status.get(group, ()) if each.get("state", {}).get("waiting")]
    return [str(each.get("image", "")) for each in waiting]


def watch_with_pulls(
    events: Iterable[tuple[str, Any]], api: LocalApi, interval: Seconds = 1.0
) -> Iterator[tuple[str, Any]]:
    """Yield the events of a watch of pods, and ``PULL`` events while images of waiting pods are pulled.

    Their object is the pod with the progress as the reason of its status. There is one for each tenth of an image.
    """
    arrived: queue.SimpleQueue[tuple[str, Any] | BaseException | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(events, arrived), name="watch", daemon=True).start()
    waiting: dict[str, Any] = {}
    shown: dict[str, str] = {}
    while True:
        try:
            event = arrived.get(timeout=interval if waiting else None)
        except queue.Empty:
            yield from _progress(waiting, shown, running_pulls(api))
            continue
        if event is None:
            return
        if isinstance(event, BaseException):
            raise event
        kind, pod = event
        uid = str(pod["metadata"].get("uid", ""))
        if kind != "DELETED" and waiting_images(pod):
            waiting[uid] = pod
        else:
            waiting.pop(uid, None)
            shown.pop(uid, None)
        yield event


def _read(
    events: Iterable[tuple[str, Any]], arrived: "queue.SimpleQueue[tuple[str, Any] | BaseException | None]"
) -> None:
    try:
        for event in events:
            arrived.put(event)
    except Exception as error:
        arrived.put(error)
    else:
        arrived.put(None)


def _progress(waiting: Mapping[str, Any], shown: dict[str, str], pulls: Pulls) -> Iterator[tuple[str, Any]]:
    for uid, pod in waiting.items():
        found = next((pull for image in waiting_images(pod) if (pull := pull_of(image, pulls))), None)
        if found is None:
            continue
        word = _word(found)
        if shown.get(uid) != word:
            shown[uid] = word
            none: dict[str, Any] = {group: [] for group in _GROUPS}
            yield PULLED, {**pod, "status": {**pod.get("status", {}), **none, "reason": word}}


def _word(pull: Mapping[str, Any]) -> str:
    """Return the STATUS column of a pod that waits for a pull."""
    phase = str(pull.get("phase", ""))
    if phase == "downloading":
        return f"Pulling {percent(pull) // _STEP_PERCENT * _STEP_PERCENT}%"
    return "Unpacking" if phase == "unpacking" else "Pulling"
