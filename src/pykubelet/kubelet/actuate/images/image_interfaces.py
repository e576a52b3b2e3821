"""Interfaces that the image manager uses."""

from typing import Protocol

from pykubelet.base.units import Seconds
from pykubelet.models.core_v1 import Pod, Secret, ServiceAccount
from pykubelet.pb import runtime_v1_pb2 as pb


class ImageService(Protocol):
    """Calls of CRI's ImageService (`CriClient`); errors are those of `actuate.cri.errors`."""

    async def image_status(self, image: pb.ImageSpec) -> pb.Image | None:
        """Read an image; None if the runtime does not have it."""

    async def pull_image(
        self,
        image: pb.ImageSpec,
        auth: pb.AuthConfig | None = None,
        sandbox_config: pb.PodSandboxConfig | None = None,
    ) -> str:
        """Pull an image; return the reference to create containers from."""


class ImageMetrics(Protocol):
    """Metrics of image pulls and of the plugins that provide credentials for them."""

    def image_pulled(self, seconds: Seconds, size_bytes: int) -> None:
        """Record an image pull: its duration without waiting for a slot, and the image's size."""

    def image_requested(self, policy: str, present: bool | None, must_pull: bool | None) -> None:
        """Count a request for an image; None: there was an error before that was known."""

    def credential_plugin(self, plugin: str, seconds: Seconds, failed: bool) -> None:
        """Record a run of a credential provider plugin."""

    def credential_config(self, config_hash: str) -> None:
        """Set the hash (``sha256:HEX``) of the configuration of credential provider plugins."""

    def pull_check(self, result: str) -> None:
        """Count a check whether a pod may use a present image, by its result."""

    def pull_records(self, intents: int, records: int) -> None:
        """Set the numbers of intents to pull images, and of records of pulled images."""


class ServiceAccounts(Protocol):
    """The API server's service accounts, for credential provider plugins."""

    async def service_account(self, namespace: str, name: str) -> ServiceAccount:
        """Return a service account. Raises base errors."""

    async def image_pull_token(self, pod: Pod, audience: str) -> str:
        """Return a token of the pod's service account, bound to the pod. Raises base errors."""


class Secrets(Protocol):
    """Reads pull secrets, from the API server or the manifest directory."""

    def get_secret(self, namespace: str, name: str) -> Secret:
        """Return a secret. Raises NotFound."""
