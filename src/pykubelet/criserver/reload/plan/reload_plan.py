"""The fields of a new configuration that take effect at once, and those that wait for a restart. Pure."""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.criserver.config.settings import Settings

LIVE: Final = frozenset(
    {
        "handlers",
        "default_handler",
        "device_ownership_from_security_context",
        "registries",
        "registries_file",
        "registry_dirs",
        "pull_bandwidth",
    }
)
"""The fields of the settings that a running server takes."""


class ReloadPlan(Struct, frozen=True):
    """The result of a comparison."""

    settings: Settings
    """The settings in force afterwards."""
    live: tuple[str, ...]
    """The fields that take effect."""
    restart: tuple[str, ...]
    """The fields whose new value waits for a restart of the server."""


def plan_reload(in_force: Settings, wanted: Settings) -> ReloadPlan:
    """Compare the settings in force with those of the files."""
    changed = [name for name in Settings.__struct_fields__ if getattr(in_force, name) != getattr(wanted, name)]
    live = tuple(name for name in changed if name in LIVE)
    settings = replace(in_force, **{name: getattr(wanted, name) for name in live})
    return ReloadPlan(settings, live, tuple(name for name in changed if name not in LIVE))
