"""Damaged databases that were set aside: ``state.db.damaged-20261128T170000Z``. The newest are kept. Blocking."""

import logging
import os
import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pykubelet.base.units import Seconds

_log = logging.getLogger(__name__)
MOST: Final = 3
"""Files that are kept, with those beside each."""
_MARK: Final = ".damaged-"


def free_name(path: Path, now: Seconds) -> Path:
    """Return a free path for a damaged file; ``now``: Unix time."""
    stem = f"{path.name}{_MARK}{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}"
    aside, number = path.with_name(stem), 1
    while os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{stem}-{number}")
    return aside


def remove_old(path: Path, endings: Sequence[str], made: Sequence[Path]) -> None:
    """Remove all but the newest damaged files of ``path`` and of its numbered followers; never those just ``made``.

    ``endings``: of the names of a file's parts. Failures are logged.
    """
    parts = "|".join(map(re.escape, endings))
    base = rf"{re.escape(path.stem)}(?:-[1-9][0-9]*)?{re.escape(path.suffix)}"
    named = re.compile(rf"({base}{re.escape(_MARK)}([0-9]{{8}}T[0-9]{{6}}Z)(?:-([0-9]{{1,9}}))?)(?:{parts})")
    found: dict[tuple[bool, str, int, str], list[Path]] = defaultdict(list)
    own = {each.name for each in made}
    try:
        names = os.listdir(path.parent)  # noqa: PTH208 - looks up no inode
    except OSError as error:
        _log.error("damaged state files cannot be listed", extra={"path": str(path.parent), "error": str(error)})
        return
    for name in names:
        if match := named.fullmatch(name):
            age = match[1] in own, match[2], int(match[3] or 1), match[1]
            found[age].append(path.with_name(name))
    for age in sorted(found)[: -max(MOST, len(own))]:
        for each in sorted(found[age]):
            _remove(each)


def _remove(path: Path) -> None:
    try:
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    except OSError as error:
        _log.error("damaged state file cannot be removed", extra={"file": str(path), "error": str(error)})
    else:
        _log.warning("damaged state file removed: newer ones are kept", extra={"file": str(path), "kept": MOST})
