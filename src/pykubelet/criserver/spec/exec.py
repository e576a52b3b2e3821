"""Builds the process of an exec command. Pure."""

from collections.abc import Mapping, Sequence

from pykubelet.base.errors import Invalid
from pykubelet.criserver.spec.spec_types import Json


def build_exec(spec: Mapping[str, object], command: Sequence[str], *, terminal: bool = False) -> Json:
    """Build the container's process with another command: same user, capabilities, environment, working directory."""
    if not command:
        raise Invalid("exec needs a command")
    process = spec["process"]
    assert isinstance(process, dict), "our own config.json"
    changed: Json = {**process, "args": list(command), "terminal": terminal}
    if terminal and not any(str(each).startswith("TERM=") for each in process["env"]):
        changed["env"] = [*process["env"], "TERM=xterm"]
    return changed
