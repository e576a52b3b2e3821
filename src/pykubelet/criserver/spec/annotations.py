"""Annotations of OCI specifications: those of containerd, and those that a handler lets pass. Pure.

The names are containerd's (``io.kubernetes.cri.*``): OCI runtimes and hooks know them.
"""

from collections.abc import Mapping
from typing import Final

from pykubelet.base.files.path_pattern import path_pattern
from pykubelet.criserver.spec.spec_types import ContainerInput, HandlerOptions
from pykubelet.pb import runtime_v1_pb2 as pb

_CRI: Final = "io.kubernetes.cri."


def container_annotations(given: ContainerInput) -> dict[str, str]:
    """The annotations of a container: containerd's, and those of pod and container that the handler lets pass.

    Others do not reach the OCI runtime, which interprets some of them.
    """
    options, image = given.sandbox.handler, given.config.image
    # Without this, systemd applies its own default TasksMax to scopes: crun sets none unless there is a limit.
    unlimited = {"org.systemd.property.TasksMax": "uint64 18446744073709551615"} if ":" in given.cgroup else {}
    return {
        **unlimited,
        **_passing(given.sandbox.config.annotations, options.pod_annotations),
        **_passing(given.config.annotations, options.container_annotations),
        **_of_sandbox(given.sandbox.id, given.sandbox.config, options, "container"),
        f"{_CRI}container-name": given.config.metadata.name,
        f"{_CRI}image-name": image.user_specified_image or image.image,
    }


def infra_annotations(sandbox: str, config: pb.PodSandboxConfig, options: HandlerOptions, image: str) -> dict[str, str]:
    """The annotations of the infra process, which is containerd's sandbox container. ``image``: its image, if any."""
    found = {
        **_passing(config.annotations, options.pod_annotations),
        **_of_sandbox(sandbox, config, options, "sandbox"),
        f"{_CRI}sandbox-log-directory": config.log_directory,
        f"{_CRI}podsandbox.image-name": image,
    }
    if config.linux.HasField("resources"):
        resources = config.linux.resources
        found |= {
            f"{_CRI}sandbox-cpu-period": str(resources.cpu_period),
            f"{_CRI}sandbox-cpu-quota": str(resources.cpu_quota),
            f"{_CRI}sandbox-cpu-shares": str(resources.cpu_shares),
            f"{_CRI}sandbox-memory": str(resources.memory_limit_in_bytes),
        }
    return found


def _of_sandbox(sandbox: str, config: pb.PodSandboxConfig, options: HandlerOptions, kind: str) -> dict[str, str]:
    metadata = config.metadata
    joined = {f"{_CRI}container-type": kind, f"{_CRI}sandbox-id": sandbox} if options.sandbox_annotations else {}
    return {
        **joined,
        f"{_CRI}sandbox-name": metadata.name,
        f"{_CRI}sandbox-namespace": metadata.namespace,
        f"{_CRI}sandbox-uid": metadata.uid,
    }


def _passing(annotations: Mapping[str, str], patterns: tuple[str, ...]) -> dict[str, str]:
    return {
        key: value for key, value in annotations.items() if any(path_pattern(each).fullmatch(key) for each in patterns)
    }
