"""Run the command line with short waits for the cluster's controllers: ``python -m pykubelet.testing.impatient run …``.

What follows a wait of minutes in a cluster, follows after seconds in a test. `shifted` applies as well.
"""

import os
from functools import partial
from pathlib import Path
from typing import Final

from pykubelet.base.units import Seconds
from pykubelet.testing import shifted

ATTACH_SECONDS: Final[Seconds] = 3.0
"""Time that a pod waits for a volume to be attached."""


def main() -> None:
    """Run the command line."""
    if shifted.VARIABLE in os.environ:
        shifted.shift(Path(os.environ[shifted.VARIABLE]))
    from pykubelet.base.daemon import grpc_core

    grpc_core.configure("ERROR")  # as the command line does, before the import
    from pykubelet.kubelet.actuate.volumes.attachment import AttachPatience
    from pykubelet.kubelet.actuate.volumes.mount import remote_volumes

    vars(remote_volumes)["AttachPatience"] = partial(AttachPatience, ATTACH_SECONDS)
    from pykubelet.cli.app import main as run

    run()


if __name__ == "__main__":
    main()
