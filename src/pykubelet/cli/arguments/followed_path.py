"""The type of flags that name files which a daemon reads again and again."""

import os
from pathlib import Path
from typing import Any

import click


class FollowedPath(click.Path):
    """An absolute path whose symbolic links are kept: where they lead may change while the daemon runs."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; click's usage errors."""
        return Path(os.fsdecode(super().convert(value, param, ctx))).absolute()
