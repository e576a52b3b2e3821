"""Pod sandboxes: namespaces, network, files and the infra process that a pod's containers share.

Each CRI call has a module: ``run.py``, ``stop.py``, ``remove.py``, ``update.py``; ``recover.py`` runs when the server
starts. They share ``state`` (the sandboxes in memory, and their records) and ``layout.py`` (paths). Used by ``server``
for CRI calls about sandboxes, and by ``container`` through ``view.py``. Imports of the server: ``cni``, ``config``,
``container``, ``netns``, ``record_store``, ``runtimes``, ``spec``, ``storage``, ``types``. Of ``container`` it uses
only helpers; ``plan/`` is pure. Start reading at ``run.py``; ``build.py`` connects the components.
"""

from pykubelet.criserver.sandbox.build import SandboxComponents, SandboxDeps, build_sandboxes
from pykubelet.criserver.sandbox.infra import Infra, InfraPrograms
from pykubelet.criserver.sandbox.layout import SandboxLayout
from pykubelet.criserver.sandbox.state.sandbox_state import Sandbox
from pykubelet.criserver.sandbox.state.table import SandboxTable
from pykubelet.criserver.sandbox.view import SandboxViews

__all__ = [
    "Infra",
    "InfraPrograms",
    "Sandbox",
    "SandboxComponents",
    "SandboxDeps",
    "SandboxLayout",
    "SandboxTable",
    "SandboxViews",
    "build_sandboxes",
]
