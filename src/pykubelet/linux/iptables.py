"""Calls iptables and ip6tables, and tells whether the rules of the kernel have changed since.

The calls are coroutines: the programs run beside the event loop.
"""

import os
from collections.abc import Mapping

from pykubelet.base.errors import NotFound
from pykubelet.base.proc import run
from pykubelet.base.units import Seconds
from pykubelet.linux.sockets import nftables_generation

IPV4, IPV6 = "iptables", "ip6tables"
_CALL: Seconds = 30.0


class Iptables:
    """The two programs. They wait for others that hold the lock of iptables."""

    def __init__(self, marks: Mapping[str, str] | None = None) -> None:
        """``marks``: environment by which the programs are known as those of this daemon."""
        self._env = {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), **(marks or {})}
        self._backends: dict[str, bool] = {}
        """Whether a program's rules are those of nftables, of which the kernel tells changes; by name."""

    async def call(self, program: str, table: str, *arguments: str, check: bool) -> int:
        """Return the exit status. Raises NotFound without the program and, with ``check``, ``proc.ExitError``."""
        argv = [program, "-w", "-t", table, *arguments]
        return (await run(argv, timeout=_CALL, env=self._env, cwd="/", check=check)).returncode

    async def restore(self, program: str, text: str) -> bool:
        """Give ``text`` to the program's ``-restore`` variant, which keeps other rules; return whether it succeeded."""
        argv = [f"{program}-restore", "-w", "-n"]
        try:
            done = await run(argv, timeout=_CALL, env=self._env, cwd="/", check=False, input=text.encode())
        except NotFound:
            return False
        return done.returncode == 0

    async def generation(self, program: str) -> int | None:
        """Return a number that differs after each change of the kernel's rules.

        None if the program's rules are not among those of which the kernel counts the changes (iptables-legacy).
        """
        try:
            if program not in self._backends:
                done = await run([program, "--version"], timeout=_CALL, env=self._env, cwd="/", check=False)
                self._backends[program] = b"nf_tables" in done.stdout
            return nftables_generation() if self._backends[program] else None
        except (NotFound, OSError):
            return None
