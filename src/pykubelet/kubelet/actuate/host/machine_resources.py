"""Reading of the machine's resources, and the configuration's reservations, for node allocatable."""

from pykubelet.base.units import Bytes
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.types.resources.allocatable import MachineResources, Reservations
from pykubelet.kubelet.types.resources.eviction import hard_thresholds
from pykubelet.linux import system
from pykubelet.linux.filesystems import fsusage


def read_machine(settings: Settings) -> MachineResources:
    """Read the resources of the machine now; disk is that of the agent's root directory. Blocks for milliseconds."""
    storage = None
    if settings.config.local_storage_capacity_isolation:
        directory = next(each for each in (settings.root_dir, *settings.root_dir.parents) if each.exists())
        storage = fsusage.filesystem(str(directory)).capacity
    return MachineResources(
        cpus=system.cpu_count(),
        memory=system.meminfo().total,
        hugepages={pages.size: Bytes(pages.size * pages.total) for pages in system.hugepages()},
        storage=storage,
    )


def reservations(settings: Settings) -> Reservations:
    """Return the resources that pods must not use."""
    config = settings.config
    return Reservations(
        kube=config.kube_reserved,
        system=config.system_reserved,
        hard=hard_thresholds(config.eviction_hard, merge_defaults=config.merge_default_eviction_settings),
    )
