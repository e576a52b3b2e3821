# ruff: noqa: PTH110 - pathlib takes longer to import than the rest of this module
"""The entry point. It runs ``apply`` without the command tree, whose import would take most of the command's time."""

import os
import sys
from typing import NoReturn

from pykubelet.cli.plan.quick_apply import QuickApplyArguments, quick_apply


def main() -> NoReturn:
    """Run the command line and exit with an `ExitStatus`, or with the status of a command that was run."""
    apply = quick_apply(sys.argv[1:], os.environ)
    socket = apply and _socket(apply)
    if not apply or not socket:
        from pykubelet.cli.app import main as run  # all other commands

        run()
    from pykubelet.cli.changes.apply_files import apply_files
    from pykubelet.cli.client.local_api import LocalApi
    from pykubelet.cli.command_end import leave, status_of

    def run_apply() -> int:
        apply_files(LocalApi(socket), apply.files, namespace=apply.namespace, wait=apply.wait, seconds=apply.seconds)
        return 0

    leave(status_of(run_apply))


def _socket(apply: QuickApplyArguments) -> str:
    """Return the socket of the agent; empty: it has to be looked for."""
    from pykubelet.cli.client.socket_path import DEFAULT_SOCKET_PATH

    return apply.socket or (DEFAULT_SOCKET_PATH if os.path.exists(DEFAULT_SOCKET_PATH) else "")
