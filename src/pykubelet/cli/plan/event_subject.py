"""The subject of an event, as the Kubernetes API writes it: a field path such as ``spec.containers{web}``."""

import re
from collections.abc import Mapping
from typing import Any, Final

_CONTAINER: Final = re.compile(r"spec\.(?:init|ephemeral)?[cC]ontainers\{([^{}]+)\}")


def container_named(field_path: str | None) -> str:
    """Return the name of the container that a field path leads to; empty: it leads to none."""
    found = _CONTAINER.fullmatch(field_path or "")
    return found[1] if found else ""


def container_of(event: Mapping[str, Any]) -> str:
    """Return the name of the container that an event is about; empty: it is about none, or about the whole pod."""
    subject = event.get("involvedObject")
    path = subject.get("fieldPath") if isinstance(subject, Mapping) else None
    return container_named(path if isinstance(path, str) else "")
