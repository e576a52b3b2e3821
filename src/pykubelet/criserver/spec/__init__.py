"""Builds OCI runtime specifications (config.json) from requests, images and facts of the machine. Pure.

Imports of the server: ``types``. Used by ``container`` and ``sandbox``. Start reading at ``container.py``.
"""

from pykubelet.criserver.spec.annotations import infra_annotations
from pykubelet.criserver.spec.container import build_container
from pykubelet.criserver.spec.exec import build_exec
from pykubelet.criserver.spec.infra import InfraProgram, build_infra, node_program
from pykubelet.criserver.spec.mounts import covered_paths
from pykubelet.criserver.spec.resources import build_resources
from pykubelet.criserver.spec.spec_types import (
    ContainerInput,
    HandlerOptions,
    Host,
    HostDevice,
    ImageDefaults,
    SandboxView,
)

__all__ = [
    "ContainerInput",
    "HandlerOptions",
    "Host",
    "HostDevice",
    "ImageDefaults",
    "InfraProgram",
    "SandboxView",
    "build_container",
    "build_exec",
    "build_infra",
    "build_resources",
    "covered_paths",
    "infra_annotations",
    "node_program",
]
