"""A network of two plugins, which are scripts that record their calls."""

import json
from pathlib import Path

from pykubelet.criserver.cni import AttachRequest, NetworkConfig, NetworkManager
from pykubelet.criserver.cni.plugins import Plugins
from pykubelet.criserver.types import SandboxID

ID = SandboxID("s1")
REQUEST = AttachRequest(ID, "/proc/self/ns/net", "default", "web", "u1")
SCRIPT = """#!/bin/sh
cat > {directory}/$CNI_COMMAND.{name}.json
echo "$CNI_COMMAND {name} $CNI_NETNS" >> {directory}/calls
echo "$CNI_COMMAND {name} $CNI_IFNAME" >> {directory}/interfaces
if [ -e {directory}/fail-$CNI_COMMAND-{name} ]; then echo '{{"code": 11, "msg": "no addresses"}}'; exit 1; fi
[ $CNI_COMMAND = ADD ] && echo '{{"cniVersion": "1.0.0", "ips": [{{"address": "10.9.0.{last}/24"}}]}}'
exit 0
"""


class Rig:
    """A network of two plugins."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for last, name in enumerate(("first", "second"), 1):
            path = directory / name
            path.write_text(SCRIPT.format(directory=directory, name=name, last=last))
            path.chmod(0o755)
        (directory / "conf").mkdir()
        self.network = self.made(directory / "conf")

    def made(self, conf_dir: Path) -> NetworkManager:
        """Make a manager of the networks that are configured in this directory."""
        return NetworkManager(
            NetworkConfig(conf_dir, self.directory / "attachments"),
            Plugins(directories=(self.directory / "none", self.directory), timeout=10.0),
        )

    def configure(self, *types: str) -> None:
        plugins = [{"type": kind} for kind in types]
        document = {"cniVersion": "1.0.0", "name": "net", "plugins": plugins}
        (self.directory / "conf" / "10.conflist").write_text(json.dumps(document))

    def calls(self) -> list[str]:
        path = self.directory / "calls"
        return [line.rsplit(" ", 1)[0] for line in path.read_text().splitlines()] if path.exists() else []
