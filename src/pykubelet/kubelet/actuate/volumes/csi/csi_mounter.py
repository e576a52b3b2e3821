"""Stages a CSI volume on the node and publishes it to a pod, with what the API server's objects say about it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field

from pykubelet.base.errors import Transient
from pykubelet.kubelet.actuate.volumes.csi.csi_client import CsiClient, Use
from pykubelet.kubelet.actuate.volumes.csi.csi_layout import CsiLayout
from pykubelet.kubelet.actuate.volumes.csi.csi_types import CsiVolume
from pykubelet.kubelet.actuate.volumes.csi.plan import csi_rules
from pykubelet.kubelet.actuate.volumes.ownership import give_to_group
from pykubelet.kubelet.actuate.volumes.volume_interfaces import CsiObjects
from pykubelet.kubelet.actuate.volumes.volume_threads import BlockingJobs, SlowChanges
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.models.core_v1 import Pod, SecretReference
from pykubelet.models.storage_v1 import CSIDriver

_T = TypeVar("_T")


class SetUpInputs(Struct, frozen=True):
    """Inputs of setting up one volume."""

    pod: Pod
    volume: CsiVolume
    driver: CSIDriver | None
    client: CsiClient
    context: dict[str, str] = field(default_factory=dict)
    """Attachment metadata of the controller."""

    @property
    def uid(self) -> PodUID:
        return ref_of(self.pod).uid

    @property
    def group(self) -> int | None:
        security = self.pod.spec.security_context
        return security.fs_group if security else None


class CsiMounter(Struct, frozen=True, kw_only=True):
    """Calls the drivers. Its methods are repeatable; they raise base errors."""

    layout: CsiLayout
    objects: CsiObjects
    blocking: BlockingJobs
    node: str
    """Name of the node."""
    slow_changes: SlowChanges

    async def stage(self, setting: SetUpInputs) -> Path:
        """Stage the volume; return its staging path."""
        volume = setting.volume
        secrets = await self.secret(volume.stage_secret)
        path = await self.block(str(volume.ref), lambda: self.layout.prepare_stage(volume))
        use = Use(
            group=setting.group,
            publish_context=setting.context,
            attributes=dict(volume.attributes),
            secrets=secrets,
        )
        await setting.client.stage(volume, str(path), use)
        return path

    async def publish(self, setting: SetUpInputs, staged: str, *, again: bool) -> None:
        """Publish the volume; ``staged`` is empty if the driver does not stage. ``again``: it was published before."""
        volume, driver = setting.volume, setting.driver
        secrets = await self.secret(volume.publish_secret)
        requests = driver.spec.token_requests if driver is not None else ()
        tokens = await self.objects.driver_tokens(setting.pod, requests) if requests else ""
        attributes, more = csi_rules.publish_context_of(volume, setting.pod, driver, tokens)
        use = Use(group=setting.group, publish_context=setting.context, attributes=attributes, secrets=secrets | more)
        attachment = csi_rules.attachment_name(volume.ref, self.node)
        target = await self.block(
            str(volume.ref), lambda: self.layout.prepare_publish(setting.uid, volume, self.node, attachment)
        )
        await setting.client.publish(volume, staged, str(target), use)
        if not again:
            await self._give_to_group(setting, target)

    async def secret(self, reference: SecretReference | None) -> dict[str, str]:
        """Read a Secret for a driver; empty without a reference."""
        if reference is None or not reference.name:
            return {}
        secret = await self.objects.secret(reference.namespace, reference.name)
        return csi_rules.secret_values(secret.data)

    async def block(self, key: str, job: Callable[[], _T]) -> _T:
        """Run a blocking job of a volume, or of a pod (``pod/…``). Raises Transient instead of OSError."""
        try:
            return await self.blocking.run(key if key.startswith("pod/") else f"volume/{key}", job)
        except OSError as error:
            raise Transient(str(error)) from error

    async def _give_to_group(self, setting: SetUpInputs, target: Path) -> None:
        group, volume = setting.group, setting.volume
        if group is None or (await setting.client.capabilities()).mount_group:
            return
        if not csi_rules.supports_fs_group(volume, setting.driver):
            return
        security = setting.pod.spec.security_context
        policy = security.fs_group_change_policy if security else ""
        change = partial(give_to_group, target, group, policy)
        await self.slow_changes.run(ref_of(setting.pod), f"volume/{volume.ref}", target, change)
