"""Applies files: the running agent checks and places their objects, since it has all that this takes in its memory.

Imports only what every call needs; what few calls need is imported where they do.
"""

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Final

from pykubelet.base.errors import Invalid, NotFound, Permanent
from pykubelet.base.text import printable
from pykubelet.cli.changes.manifest_files import read_texts
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.client.rejected_request import RejectedRequest
from pykubelet.cli.terminal import echo

_NOTICED_SECONDS: Final = 30.0
"""Limit for the agent to read a changed file; it is notified of changes, and reads all files every 20 s."""
_MOST_BYTES: Final = 60 * 1024
"""A larger request is not sent, since the agent takes no body above 64 KiB; the command checks such texts itself."""


def apply_files(
    api: LocalApi,
    files: Sequence[str | PathLike[str]],
    *,
    namespace: str = "",
    dry_run: bool = False,
    wait: bool = False,
    seconds: float | None = None,
) -> None:
    """Create or change the objects of the files and print what was done; with ``wait`` until the pods are ready.

    ``seconds`` is the limit of that; None: no limit. SystemExit: with 1 after findings that are errors, which are
    printed, with 124 after the limit. PykubeletError: the files cannot be read, or the directory not be changed.
    """
    texts = read_texts(files)
    if not texts:
        names = ", ".join(printable(str(file)) for file in files)
        raise Permanent(f"{names}: no object found; write a Pod, ConfigMap or Secret")
    answer = _apply(api, texts, namespace, dry_run)
    for finding in answer.get("findings", ()):
        echo(finding, err=True)
    if errors := answer.get("errors"):
        echo(f"error: {errors} problem{'' if errors == 1 else 's'}; nothing was changed", err=True)
        raise SystemExit(1)
    changes = answer.get("changes", ())
    for change in changes:
        echo(f"{change['label']} {change['change']}{' (dry run)' if dry_run else ''}")
    if fault := answer.get("fault"):
        raise Permanent(fault)
    if not dry_run:
        _wait(api, changes, seconds if wait else _NOTICED_SECONDS, ready=wait)


def _apply(api: LocalApi, texts: Sequence[tuple[str, bytes]], namespace: str, dry_run: bool) -> Mapping[str, Any]:
    """Return what came of it, as the agent says, or this process where the agent cannot do it."""
    try:
        documents = [{"origin": printable(origin), "text": data.decode()} for origin, data in texts]
    except UnicodeDecodeError:
        return _apply_here(api, texts, namespace, dry_run)
    body = json.dumps({"documents": documents, "namespace": namespace, "dryRun": dry_run}).encode()
    if len(body) > _MOST_BYTES:
        return _apply_here(api, texts, namespace, dry_run)
    try:
        return dict(api.post("/pykubelet/v1/apply", body))
    except NotFound:  # an agent of an older version
        return _apply_here(api, texts, namespace, dry_run)
    except RejectedRequest as error:
        raise Invalid(str(error)) from error


def _apply_here(api: LocalApi, texts: Sequence[tuple[str, bytes]], namespace: str, dry_run: bool) -> Mapping[str, Any]:
    from pykubelet.cli.changes.agent_directory import apply_here  # takes longer to import than the agent to answer

    return apply_here(api, texts, namespace=namespace, dry_run=dry_run)


def _wait(api: LocalApi, changes: Sequence[Mapping[str, Any]], seconds: float | None, *, ready: bool) -> None:
    """Wait until the agent has the pods, with ``ready`` until they are ready or have succeeded."""
    pods = [change for change in changes if change.get("uid")]
    if not pods:
        return
    from pykubelet.cli.changes.pod_wait import AwaitedPod, by_uid, wait_for_pods  # while the pods start
    from pykubelet.cli.plan.pod_goals import created, settled

    goal = settled if ready else created
    awaited = [
        # An agent of an older version names no namespace.
        AwaitedPod(str(pod["label"]), by_uid(str(pod["uid"])), goal, namespace=str(pod.get("namespace", "")))
        for pod in pods
    ]
    wait_for_pods(api, awaited, seconds)
