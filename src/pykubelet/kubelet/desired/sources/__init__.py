"""The sources of pods: a manifest directory, a URL and the API server, merged into one stream of changes.

:class:`Sources` runs those of manifests; :class:`PodMux` posts the differences to the sync loop;
:class:`ManifestStates` records the problems of each manifest for the CLI. Imports no other stage. Start reading in
``source_manager.py``, then ``file_source.py``.
"""

from pykubelet.kubelet.desired.sources.mux import PodMux
from pykubelet.kubelet.desired.sources.source_manager import Sources, SourcesConfig, sources_config
from pykubelet.kubelet.desired.sources.source_types import FileSourceConfig, HttpSourceConfig, ManifestState
from pykubelet.kubelet.desired.sources.states import ManifestStates

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
