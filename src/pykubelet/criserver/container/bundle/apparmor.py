"""Ensures that the AppArmor profile of a container is loaded when the container is created."""

import asyncio
import logging
from functools import partial
from pathlib import Path

from pykubelet.base import proc
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import NotFound, Permanent
from pykubelet.base.units import Seconds
from pykubelet.criserver.spec.security.apparmor import DEFAULT_PROFILE, PARSER, default_profile, is_loaded

_log = logging.getLogger(__name__)
_LIST = Path("/sys/kernel/security/apparmor/profiles")
_SECONDS: Seconds = 60.0


class AppArmorProfiles:
    """The profiles that are loaded in the kernel, and the default profile of this runtime."""

    def __init__(self, listed: Path = _LIST, parser: str = PARSER) -> None:
        self._listed = listed
        self._parser = parser
        self._lock = asyncio.Lock()
        self._fresh = False
        """This process has loaded the default profile; one that an older release loaded may differ."""

    async def ensure(self, profile: str) -> None:
        """Load the default profile if needed. Permanent: it cannot be loaded, or another profile is not loaded."""
        if profile != DEFAULT_PROFILE:
            if not await self._has(profile):
                raise Permanent(f"AppArmor profile {profile!r} is not loaded on this machine")
            return
        async with self._lock:
            if self._fresh and await self._has(profile):
                return
            # -K: keep no cache, -r: replace what is there.
            try:
                await proc.run([self._parser, "-Kr"], input=default_profile().encode(), timeout=_SECONDS)
            except (NotFound, proc.ExitError) as error:
                raise Permanent(f"AppArmor's default profile {profile} cannot be loaded: {error}") from error
            self._fresh = True
            _log.info("AppArmor profile loaded", extra={"profile": profile})

    async def _has(self, profile: str) -> bool:
        try:
            listed = await blocking.call("apparmor", partial(self._listed.read_text, errors="replace"))
            return is_loaded(profile, listed)
        except OSError as error:
            raise Permanent(f"AppArmor profiles cannot be listed: {error}; is securityfs mounted?") from error
