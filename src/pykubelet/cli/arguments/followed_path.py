"""The type of flags that name files which a daemon reads again and again."""

import os
from pathlib import Path
from typing import Any

import click


class FollowedPath(click.Path):
    """An absolute path whose symbolic links are kept: where they lead may change while the daemon runs."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the `Path`; None for an empty text: as in Go, the flag counts as not given. Click's usage errors."""
        if value == "":
            return None
        return Path(os.fsdecode(super().convert(value, param, ctx))).absolute()
