"""The tasks of node mode."""

from collections.abc import Coroutine
from typing import Any
from unittest.mock import Mock

from pykubelet.kubelet.compose.cluster.build import Cluster


async def _task(name: str) -> None: ...


def test_parts_of_node_mode_are_its_own_tasks_and_those_of_its_components() -> None:
    def of_component() -> dict[str, Coroutine[Any, Any, None]]:
        return {"watch": _task("watch")}

    cluster = Cluster(
        pods=Mock(),
        node=Mock(),
        rereader=Mock(),
        tasks={"lease": lambda: _task("lease")},
        others=(of_component,),
        live=(),
    )
    parts = cluster.parts()
    assert list(parts) == ["lease", "watch"]
    for part in parts.values():
        part.close()
