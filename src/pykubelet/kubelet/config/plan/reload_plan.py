"""The changes by a reload of the configuration: compares what was re-read with what the agent runs with. Pure."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from pykubelet.base.text import without_credentials
from pykubelet.kubelet.config.plan.field_effects import SECRET_VALUES, ChangeRequirement, effect_of
from pykubelet.kubelet.config.v1beta1 import KubeletConfiguration

FIELDS: Final = msgspec.structs.fields(KubeletConfiguration)
_HIDDEN: Final = "(hidden)"


class ReloadPlan(Struct, frozen=True, kw_only=True):
    """The result of a comparison. Fields have their names in the file."""

    config: KubeletConfiguration
    """The configuration that the agent has afterwards: new values of the fields that it applies live."""
    live: frozenset[str]
    """Fields that get a new value now."""
    restart: tuple[str, ...]
    """Fields whose new value needs a restart."""
    ignored: tuple[str, ...]
    """Fields without effect that differ from those at the start."""

    @property
    def message(self) -> str:
        """The result for a person, without a full stop."""
        parts = [f"{', '.join(sorted(self.live))} applied" if self.live else "nothing to apply"]
        if self.restart:
            parts.append(f"{', '.join(self.restart)} {'needs' if len(self.restart) == 1 else 'need'} a restart")
        return "; ".join(parts)


def plan_reload(
    *, started: KubeletConfiguration, in_force: KubeletConfiguration, wanted: KubeletConfiguration, cluster: bool
) -> ReloadPlan:
    """Compare the re-read configuration ``wanted`` with that of the start, and with the one in force.

    ``started`` is as it was read: the one in force may differ from it, since the agent takes the cgroup driver of the
    runtime. ``cluster``: there is an API server.
    """
    changes, live, restart, ignored = dict[str, object](), set[str](), list[str](), list[str]()
    for field in FIELDS:
        name, new = field.encode_name, getattr(wanted, field.name)
        match effect_of(name, cluster=cluster).on_change:
            case ChangeRequirement.LIVE:
                if new != getattr(in_force, field.name):
                    changes[field.name] = new
                    live.add(name)
            case ChangeRequirement.RESTART:
                if new != getattr(started, field.name):
                    restart.append(name)
            case ChangeRequirement.NOTHING:
                if new != getattr(started, field.name):
                    ignored.append(name)
    return ReloadPlan(
        config=msgspec.structs.replace(in_force, **changes),
        live=frozenset(live),
        restart=tuple(restart),
        ignored=tuple(ignored),
    )


class FieldState(StrEnum):
    """Whether the value in force is the configured one."""

    APPLIED = "applied"
    RESTART = "needs restart"
    NO_EFFECT = "no effect"


class FieldView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A field of the configuration with its values."""

    field: str
    in_force: object
    """The value that the agent uses. Values that may be credentials are hidden."""
    configured: object
    """The value of the files and flags, as they were last read without an error."""
    default: bool
    """Whether the configured value is the default."""
    on_change: str
    """Requirement of a change of the field: ``live``, ``restart`` or ``none``, in that case."""
    state: str
    """A `FieldState`."""
    reason: str
    """Live: what takes a new value. Restart: why it is needed. None: why the field has no effect."""


class ConfigView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The configuration of a running agent, for ``pykubelet config status``."""

    files: tuple[str, ...]
    """The configuration file and the directory of drop-in files."""
    read_at: float
    """Unix time of the last read without an error."""
    error: str
    """The reason why the present files are refused; empty: they are not."""
    error_at: float
    """Unix time of that error; 0 without one."""
    restart: tuple[str, ...]
    """Fields whose new value needs a restart."""
    fields: tuple[FieldView, ...]


def field_views(
    *, started: KubeletConfiguration, in_force: KubeletConfiguration, configured: KubeletConfiguration, cluster: bool
) -> Iterator[FieldView]:
    """Yield the state of each field. Arguments: as of `plan_reload`."""
    defaults = KubeletConfiguration()
    for field in FIELDS:
        name, wanted = field.encode_name, getattr(configured, field.name)
        effect = effect_of(name, cluster=cluster)
        state = FieldState.APPLIED
        if effect.on_change is ChangeRequirement.NOTHING:
            state = FieldState.NO_EFFECT
        elif effect.on_change is ChangeRequirement.RESTART and wanted != getattr(started, field.name):
            state = FieldState.RESTART
        yield FieldView(
            field=name,
            in_force=_shown(name, getattr(in_force, field.name)),
            configured=_shown(name, wanted),
            default=wanted == getattr(defaults, field.name),
            on_change=str(effect.on_change),
            state=str(state),
            reason=effect.text,
        )


def _shown(name: str, value: object) -> object:
    """Return a value as JSON has it; without what may be a credential."""
    if name in SECRET_VALUES and isinstance(value, dict):
        return dict.fromkeys(value, _HIDDEN)
    if name == "staticPodURL" and isinstance(value, str):
        return without_credentials(value)
    return msgspec.to_builtins(value)
