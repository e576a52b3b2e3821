"""Where pods come from without a cluster: a directory of manifests and a URL, merged into one stream of changes.

:class:`Sources` runs them; :class:`PodMux` compares and tells the sync loop; :class:`ManifestStates` remembers
each manifest's problems for the CLI. Made and wired in ``kubelet/main.py``.
"""

from pykubelet.kubelet.desired.sources.manager import Sources, SourcesConfig, sources_config
from pykubelet.kubelet.desired.sources.mux import PodMux
from pykubelet.kubelet.desired.sources.states import ManifestStates
from pykubelet.kubelet.desired.sources.types import FileSourceConfig, HttpSourceConfig, ManifestState

__all__ = [
    "FileSourceConfig",
    "HttpSourceConfig",
    "ManifestState",
    "ManifestStates",
    "PodMux",
    "Sources",
    "SourcesConfig",
    "sources_config",
]
