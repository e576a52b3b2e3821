"""Looks up the sources of a pod's volumes: the pod's spec, or the PersistentVolume bound to a claim."""

import asyncio
from collections.abc import Collection

from pykubelet.base.errors import PykubeletError, Unsupported
from pykubelet.kubelet.actuate.volumes.plan import claims as claim_rules
from pykubelet.kubelet.actuate.volumes.plan import csi_migration, pod_volumes
from pykubelet.kubelet.actuate.volumes.volume_interfaces import ClaimReader
from pykubelet.kubelet.actuate.volumes.volume_source import CSI, NFS, Source
from pykubelet.models.core_v1 import Pod, Volume

_ONLY_IF_USED = (CSI, NFS)
"""Kinds that are set up only if a container uses them, as in the Go kubelet; the other kinds cost nothing."""


class SourceLookup:
    """Reads claims and PersistentVolumes when a pod needs them; nodes have no permission to watch them."""

    def __init__(self, claims: ClaimReader | None) -> None:
        self._claims = claims

    async def find(self, pod: Pod, known: Collection[str]) -> tuple[dict[str, Source], dict[str, str]]:
        """Return the sources of volumes not in ``known``, and the problems of those without a source, by name."""
        used = claim_rules.used_volumes(pod)
        found: dict[str, Source] = {}
        claimed: list[Volume] = []
        problems: dict[str, str] = {}
        for volume in pod.spec.volumes:
            if volume.name in known:
                continue
            kind = pod_volumes.source_of(volume)
            if claim_rules.claim_name(pod, volume):
                if volume.name in used:
                    claimed.append(volume)
            elif kind in csi_migration.KINDS:
                if volume.name in used:
                    _add_migrated(pod, volume, found, problems)
            elif kind not in _ONLY_IF_USED or volume.name in used:
                read_only = volume.csi is not None and bool(volume.csi.read_only)
                found[volume.name] = Source(kind=kind, name=volume.name, volume=volume, read_only=read_only)
        looked_up = await asyncio.gather(*(self._look_up(pod, volume) for volume in claimed))
        for volume, result in zip(claimed, looked_up, strict=True):
            if isinstance(result, Source):
                found[volume.name] = result
            else:
                problems[volume.name] = result
        return found, problems

    async def _look_up(self, pod: Pod, volume: Volume) -> Source | str:
        namespace = pod.metadata.namespace or "default"
        name = claim_rules.claim_name(pod, volume)
        try:
            if self._claims is None:
                raise Unsupported(
                    "a claim needs an API server, which this agent does not have; mount a hostPath or an emptyDir"
                )
            claim = await self._claims.claim(namespace, name)
            claim_rules.check_claim(pod, volume, claim)
            pv = await self._claims.volume(claim.spec.volume_name)
            if claim_rules.is_bound_to_nodes(pv):
                claim_rules.check_node(pv, await self._claims.node_labels())
            return claim_rules.source_of_claim(pod, volume, claim, pv)
        except PykubeletError as error:
            return f"error processing PVC {namespace}/{name}: {error}"


def _add_migrated(pod: Pod, volume: Volume, found: dict[str, Source], problems: dict[str, str]) -> None:
    """Add the source of a volume of a former in-tree plugin, translated for its CSI driver."""
    try:
        pv = csi_migration.inline(volume, pod.metadata.namespace)
    except PykubeletError as error:
        problems[volume.name] = f"failed to translate volume {volume.name} from in-tree to CSI: {error}"
    else:
        found[volume.name] = Source(kind=CSI, name=volume.name, volume=volume, pv=pv, migrated=True)
