"""Queue of image pulls: shares a pull among its pods, limits their number and rate, and chooses the credentials."""

import asyncio
from collections.abc import Hashable
from contextlib import AbstractAsyncContextManager, nullcontext

from msgspec import Struct

from pykubelet.base.concurrency.rate_limit import RateLimit
from pykubelet.base.concurrency.single_flight import SingleFlight
from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.actuate.images.image_interfaces import ImageMetrics, ImageService
from pykubelet.kubelet.actuate.images.image_request import ImageRequest
from pykubelet.kubelet.actuate.images.image_types import ImageConfig
from pykubelet.kubelet.actuate.images.known_images import KnownImages
from pykubelet.kubelet.actuate.images.plan import pull_policy
from pykubelet.kubelet.actuate.images.plan.keyring import RegistryCredentials
from pykubelet.kubelet.actuate.images.pull_errors import combined
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.models.core_v1 import Pod
from pykubelet.pb import runtime_v1_pb2 as pb


class PullResult(Struct, frozen=True, kw_only=True):
    """Result of a pull."""

    ref: str
    """The runtime's reference to create containers from."""
    image_id: str
    """The runtime's id of the image; the same as ``ref`` if it could not be read."""
    size: Bytes
    took: Seconds
    """Duration, without waiting for a slot."""
    used: RegistryCredentials | None
    """None: pulled without credentials."""


class PullQueue:
    """Pulls images within the limits of the configuration.

    Concurrent pulls of one image with the policy IfNotPresent and the same credentials are one pull. Policy
    Always pulls separately, since it has to ask the registry with the pod's own credentials.
    """

    def __init__(
        self, runtime: ImageService, images: KnownImages, *, config: ImageConfig, telemetry: Telemetry[ImageMetrics]
    ) -> None:
        self._runtime = runtime
        self._images = images
        self._clock = telemetry.clock
        self._metrics = telemetry.metrics
        self._rate = RateLimit(config.registry_qps, config.registry_burst, clock=telemetry.clock)
        self._parallel = config.parallel
        self._slots = _slots(config.parallel)
        self._shared: SingleFlight[Hashable, PullResult] = SingleFlight()

    def reconfigure(self, config: ImageConfig) -> None:
        """Pull by these limits from now on; pulls that run or wait for a slot keep the former number of slots."""
        self._rate.change(config.registry_qps, config.registry_burst)
        if config.parallel != self._parallel:
            self._parallel = config.parallel
            self._slots = _slots(config.parallel)

    async def pull(
        self, request: ImageRequest, spec: pb.ImageSpec, candidates: tuple[RegistryCredentials, ...]
    ) -> PullResult:
        """Pull the image with the first of the credentials that works, or wait for a pull that does the same.

        Raises base errors.
        """
        if request.policy == pull_policy.ALWAYS:
            return await self._pull_in_slot(request.pod, spec, candidates)
        key = (spec.image, candidates)
        return await self._shared.run(key, lambda: self._pull_in_slot(request.pod, spec, candidates))

    async def _pull_in_slot(
        self, pod: Pod, spec: pb.ImageSpec, candidates: tuple[RegistryCredentials, ...]
    ) -> PullResult:
        """Pull when a slot is free.

        Pulls beyond `registryPullQPS` fail, as upstream, and are retried with back-off.
        """
        async with self._slots:
            if not self._rate.try_take():
                raise Transient("pull QPS exceeded")
            return await self._try_each(pod, spec, candidates)

    async def _try_each(self, pod: Pod, spec: pb.ImageSpec, candidates: tuple[RegistryCredentials, ...]) -> PullResult:
        """Pull with each of the credentials until one works; without any, once."""
        begin = self._clock.monotonic()
        sandbox = _sandbox_config(pod)
        errors: list[PykubeletError] = []
        for candidate in candidates or (None,):
            try:
                ref = await self._runtime.pull_image(spec, _auth_config(candidate), sandbox)
            except PykubeletError as error:
                errors.append(error)
            else:
                return await self._result(spec, ref, used=candidate, begin=begin)
        raise combined(errors)

    async def _result(
        self, spec: pb.ImageSpec, ref: str, *, used: RegistryCredentials | None, begin: Seconds
    ) -> PullResult:
        """Read what was pulled, and count it."""
        facts = await self._images.find_if_readable(spec, ref)
        size = facts.size if facts is not None else Bytes(0)
        took = self._clock.monotonic() - begin
        self._metrics.image_pulled(took, size)
        return PullResult(
            ref=ref,
            image_id=facts.id if facts is not None else ref,
            size=size,
            took=took,
            used=used,
        )


def _slots(parallel: int | None) -> AbstractAsyncContextManager[None]:
    """Return what limits the concurrent pulls; None: no limit."""
    return asyncio.Semaphore(parallel) if parallel else nullcontext()


def _sandbox_config(pod: Pod) -> pb.PodSandboxConfig:
    """Sandbox configuration with the pod's identity, for runtimes that account pulls to pods or namespaces."""
    ref = ref_of(pod)
    metadata = pb.PodSandboxMetadata(name=ref.name, uid=ref.uid, namespace=ref.namespace)
    return pb.PodSandboxConfig(metadata=metadata)


def _auth_config(credentials: RegistryCredentials | None) -> pb.AuthConfig | None:
    if credentials is None:
        return None
    return pb.AuthConfig(
        username=credentials.username,
        password=credentials.password,
        identity_token=credentials.identity_token,
    )
