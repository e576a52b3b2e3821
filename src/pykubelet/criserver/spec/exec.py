"""The process of a command that is run in a running container. Pure."""

from collections.abc import Mapping, Sequence

from pykubelet.base.errors import Invalid
from pykubelet.criserver.spec.types import Json


def build_exec(spec: Mapping[str, object], command: Sequence[str], *, terminal: bool = False) -> Json:
    """The container's own process with another command: same user, rights, environment and directory."""
    if not command:
        raise Invalid("a command to run is needed")
    process = spec["process"]
    assert isinstance(process, dict), "our own config.json"
    changed: Json = {**process, "args": list(command), "terminal": terminal}
    if terminal and not any(str(each).startswith("TERM=") for each in process["env"]):
        changed["env"] = [*process["env"], "TERM=xterm"]
    return changed
