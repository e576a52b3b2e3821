"""Selection of the objects of a collection by their fields."""

import re
from typing import Final

from msgspec import Struct

from pykubelet.models.scalars import KubeStruct

_CAPITAL: Final = re.compile("[A-Z]")


class ObjectSelector(Struct, frozen=True):
    """Selects objects of a collection. The API server selects; :meth:`matches` finds what it should not send."""

    fields: str = ""
    """``PATH=VALUE``, such as ``spec.nodeName=a``; several are separated by commas."""
    labels: str = ""

    def matches(self, value: KubeStruct) -> bool:
        """Whether the fields of an object have the values."""
        wanted = (each.partition("=") for each in self.fields.split(",") if each)
        return all(_field(value, path) == expected for path, _, expected in wanted)


def _field(value: object, path: str) -> object:
    for name in path.split("."):
        value = getattr(value, _CAPITAL.sub(lambda capital: f"_{capital[0].lower()}", name), "")
    return value
