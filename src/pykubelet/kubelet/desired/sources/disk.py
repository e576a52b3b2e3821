"""Reads a manifest directory or a single file. Blocks, so it is called in a thread."""

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from pykubelet.base.errors import Invalid, NotFound, Transient
from pykubelet.base.files.regular_file import is_plain_name
from pykubelet.base.text import printable
from pykubelet.kubelet.desired.manifest.manifest_types import fault_message
from pykubelet.kubelet.desired.manifest.parse import parse
from pykubelet.kubelet.desired.manifest_file import read_manifest
from pykubelet.kubelet.desired.sources.backup import Backup
from pykubelet.kubelet.desired.sources.plan.effective_manifests import accept, unreadable
from pykubelet.kubelet.desired.sources.source_types import FileRecord


def read_changed(
    path: Path, known: Mapping[str, FileRecord], busy: frozenset[str], backup: Backup | None
) -> dict[str, FileRecord]:
    """Read changed files; return a record for each file by name, or no record if the path does not exist.

    ``busy`` files are not read; they keep their known record.

    Raises Transient if the directory itself cannot be read now.
    """
    records: dict[str, FileRecord] = {}
    try:
        names = _names(path)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Transient(f"{path}: cannot be read: {error.strerror}; does the agent have the right to?") from error
    for name, file in names.items():
        previous = known.get(name)
        if name in busy:
            if previous is not None:
                records[name] = previous
            continue
        try:
            record = _read(file, previous, backup)
        except Exception as error:  # a defect of the agent must not affect other files
            record = unreadable(previous, printable(str(file)), fault_message(error))
        if record is not None:
            records[name] = record
    return records


def _names(path: Path) -> dict[str, Path]:
    """Return the files by name, sorted; subdirectories are ignored."""
    if not stat.S_ISDIR(path.stat().st_mode):
        return {path.name: path}
    with os.scandir(path) as entries:
        names = sorted(entry.name for entry in entries if is_plain_name(entry.name) and not _is_directory(entry))
    return {name: path / name for name in names}


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _read(file: Path, previous: FileRecord | None, backup: Backup | None) -> FileRecord | None:
    """Return the record of a file; None if it does not exist."""
    origin = printable(str(file))
    try:
        data = read_manifest(str(file))
    except NotFound:
        if file.is_symlink():
            return unreadable(previous, origin, "is a symbolic link to nothing")
        return None
    except (Invalid, Transient) as error:
        return unreadable(previous or _from_backup(origin, backup), origin, str(error))
    digest = hashlib.sha256(data).hexdigest()
    if previous is not None and previous.digest == digest:
        return previous
    manifest = parse(data, origin)
    if manifest.problems and previous is None:
        previous = _from_backup(origin, backup)
    record = accept(previous, manifest, digest)
    if backup is not None and not record.manifest.problems:
        backup.save(origin, data)
    return record


def _from_backup(origin: str, backup: Backup | None) -> FileRecord | None:
    """Return the record of the last valid version, from before the agent's restart."""
    data = backup.load(origin) if backup is not None else None
    return accept(None, parse(data, origin), "") if data is not None else None
