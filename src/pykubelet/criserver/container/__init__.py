"""Containers: creation, start, update, exec, stop, removal, and recovery after a restart of the server.

Each CRI call has a module: ``create.py``, ``start.py``, ``stop.py``, ``remove.py``, ``exec.py``, ``update.py``,
``log.py``; ``recover.py`` runs when the server starts, and ``containers_of_sandbox.py`` when a pod is stopped or
removed. They share ``state`` (the containers in memory, and their records), ``bundle`` (what a container has on the
machine) and ``processes`` (launch, watch, end). Used by ``server`` for CRI calls about containers, and by ``sandbox``.
Imports of the server: ``config``, ``conmon``, ``oci``, ``record_store``, ``runtimes``, ``spec``, ``storage``,
``types``, ``unpack``. ``plan/`` is pure. Start reading at ``create.py``; ``build.py`` connects the components.
"""

from pykubelet.criserver.container.build import ContainerComponents, ContainerDeps, build_containers
from pykubelet.criserver.container.container_interfaces import Directories
from pykubelet.criserver.container.state.container_state import Container
from pykubelet.criserver.container.state.image_users import ImageUsers
from pykubelet.criserver.container.state.table import ContainerTable

__all__ = [
    "Container",
    "ContainerComponents",
    "ContainerDeps",
    "ContainerTable",
    "Directories",
    "ImageUsers",
    "build_containers",
]
