"""The registry credentials that a pod may use for an image: of its pull secrets, the node's files and plugins."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from pykubelet.base.errors import PykubeletError
from pykubelet.base.image_reference import parse
from pykubelet.kubelet.actuate.images.credential_plugins import CredentialPlugins
from pykubelet.kubelet.actuate.images.image_interfaces import Secrets
from pykubelet.kubelet.actuate.images.node_credentials import NodeCredentials
from pykubelet.kubelet.actuate.images.plan.keyring import RegistryCredentials, keyring_of
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.kubelet.types.reports.events import WARNING, EventRecorder
from pykubelet.models.core_v1 import Pod, Secret

_log = logging.getLogger(__name__)

_NO_SECRET: Final = "FailedToRetrieveImagePullSecret"


class RequestCredentials:
    """The credentials for one request, looked up when they are first needed, and once."""

    def __init__(self, look_up: Callable[[], Awaitable[tuple[RegistryCredentials, ...]]]) -> None:
        self._look_up = look_up
        self._found: tuple[RegistryCredentials, ...] | None = None

    async def get(self) -> tuple[RegistryCredentials, ...]:
        """Return the candidates, in the order in which to try them. Raises Invalid for an invalid secret."""
        if self._found is None:
            self._found = await self._look_up()
        return self._found


class PodCredentials:
    """Finds the credentials of pods."""

    def __init__(
        self, *, secrets: Secrets, node: NodeCredentials, plugins: CredentialPlugins, events: EventRecorder
    ) -> None:
        self._secrets = secrets
        self._node = node
        self._plugins = plugins
        self._events = events

    def for_image(self, pod: Pod, image: str) -> RequestCredentials:
        """Return the pod's credentials for an image, which are not looked up yet."""
        return RequestCredentials(lambda: self._look_up(pod, image))

    async def _look_up(self, pod: Pod, image: str) -> tuple[RegistryCredentials, ...]:
        """Candidates from the pod's pull secrets, then of the node's files, then of plugins, once for each owner."""
        secrets, missing = self._pull_secrets(pod)
        if missing:
            names = ", ".join(missing)
            message = (
                f"Unable to retrieve some image pull secrets ({names}); attempting to pull the image may not succeed."
            )
            self._events.event(ref_of(pod), WARNING, _NO_SECRET, message)
        repository = parse(image).name
        of_pod = keyring_of(secrets).lookup(repository)
        of_node = await self._node.lookup(repository)
        of_plugins = await self._plugins.lookup(pod, repository)
        return (*of_pod, *of_node, *of_plugins)

    def _pull_secrets(self, pod: Pod) -> tuple[list[Secret], list[str]]:
        """Return the pod's pull secrets, and the names of those that cannot be read."""
        namespace = ref_of(pod).namespace
        found: list[Secret] = []
        missing: list[str] = []
        for reference in pod.spec.image_pull_secrets:
            if not reference.name:
                continue
            try:
                found.append(self._secrets.get_secret(namespace, reference.name))
            except PykubeletError as error:
                missing.append(reference.name)
                extra = {"pod": str(ref_of(pod)), "secret": reference.name, "error": str(error)}
                _log.info("pull secret missing", extra=extra)
        return found, missing
