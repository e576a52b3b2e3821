"""Base class of the generated models, and the API's scalars that JSON does not have."""

from datetime import UTC, datetime
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct


class KubeStruct(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """A Kubernetes object or a part of one.

    Immutable; camelCase on the wire; zero values are left out there. Unknown fields are ignored, since a
    newer server may send some; manifests are checked strictly by ``kubelet.desired.manifest`` instead. ``gc``
    is off because these are trees without cycles, which the cyclic collector need not walk.
    """


Time: TypeAlias = Annotated[datetime, Meta(tz=True)]
"""A point in time to the second, aware; RFC 3339 on the wire. Make one with :func:`time_from_unix`."""

Quantity: TypeAlias = str | int | float
"""An amount as written (``100m``, ``1Gi``, ``2``); read it with :mod:`pykubelet.models.quantity`."""

IntOrString: TypeAlias = int | str
"""A number, or a name that stands for one (a port), or a percentage."""

RawObject: TypeAlias = dict[str, object]
"""An object whose shape this project does not know."""


class MicroTime(datetime):
    """A point in time to the microsecond.

    A type of its own because the API server refuses it unless all six digits are written, which
    :mod:`pykubelet.models.codec` does. Make one with :func:`micro_time_from_unix`.
    """

    def wire(self) -> str:
        """RFC 3339 in UTC with exactly six digits."""
        return self.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def time_from_unix(seconds: float) -> datetime:
    """The aware UTC time of Unix seconds, cut to whole seconds as the API keeps it."""
    return datetime.fromtimestamp(int(seconds), UTC)


def micro_time_from_unix(seconds: float) -> MicroTime:
    """The aware UTC time of Unix seconds, to the microsecond."""
    return MicroTime.fromtimestamp(seconds, UTC)
