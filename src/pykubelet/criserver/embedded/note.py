"""The note in the run directory by which an agent finds a running server. Blocking."""

import hashlib
from pathlib import Path

import msgspec

from pykubelet import __version__
from pykubelet.base.files.atomic import write_atomic
from pykubelet.base.files.decoding import decode_json
from pykubelet.base.files.safe_path import read_regular
from pykubelet.criserver.config import Settings
from pykubelet.criserver.directories import set_aside_obstacle
from pykubelet.criserver.embedded.supervisor_types import ServerNote
from pykubelet.criserver.types import ProcessRef

_FILE = "server.json"
_LIMIT = 1 << 20


def note_of(settings: Settings, process: ProcessRef, kept: bool) -> ServerNote:
    """Build the note of a server with these settings and the version of this program."""
    text = msgspec.json.encode(settings, enc_hook=str, order="deterministic")
    return ServerNote(process, __version__, hashlib.sha256(text).hexdigest(), kept)


def read_note(run: Path) -> ServerNote | None:
    """Read the note in a run directory; its server may have ended. None: there is no readable note."""
    try:
        return decode_json(read_regular(run / _FILE, _LIMIT), ServerNote)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def write_note(run: Path, note: ServerNote) -> None:
    """Write the note to the run directory, whose lock the caller holds."""
    set_aside_obstacle(run / _FILE)
    write_atomic(run / _FILE, msgspec.json.encode(note))
