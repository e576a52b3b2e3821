"""Labels by which pods with a worker are counted: values of metrics, which are upstream's."""

from enum import StrEnum

from msgspec import Struct


class Lifecycle(StrEnum):
    """Label ``lifecycle``: the phase of a pod's worker."""

    SYNC = "sync"
    TERMINATING = "terminating"
    TERMINATED = "terminated"


class PodConfig(StrEnum):
    """Label ``config``: why a pod has a worker."""

    DESIRED = "desired"
    ORPHAN = "orphan"
    RUNTIME_ONLY = "runtime_only"


class WorkingPods(Struct, frozen=True):
    """Labels of pods with a worker. ``static`` is ``true``, empty or ``unknown``."""

    lifecycle: Lifecycle
    config: PodConfig = PodConfig.DESIRED
    static: str = "true"
