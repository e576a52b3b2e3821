"""The serving certificate in force: the configured or rotated one, else a self-signed one."""

from collections.abc import Callable
from typing import Final

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.units import Seconds
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_interfaces import KubeletApiServerConfig
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_types import CertFiles
from pykubelet.kubelet.serve.kubelet_api.self_signed import ensure_self_signed

_LOOK_AGAIN: Final[Seconds] = 86400.0


class ServingCertificate:
    """Chooses the certificate. ``given`` is called each time; the self-signed one is checked once a day."""

    def __init__(self, *, config: KubeletApiServerConfig, given: Callable[[], CertFiles | None], clock: Clock) -> None:
        self._config = config
        self._given = given
        self._clock = clock
        self._own: CertFiles | None = None
        self._looked: Seconds = 0.0

    async def files(self) -> CertFiles:
        """Return the certificate files in force. OSError: the self-signed certificate cannot be stored."""
        given = self._given()
        if given is not None:
            return given
        now = self._clock.monotonic()
        if self._own is None or now - self._looked >= _LOOK_AGAIN:
            config = self._config
            self._own = await blocking.call_to_end(
                "certificates",
                ensure_self_signed,
                config.pki_dir,
                config.node_name,
                config.addresses,
                self._clock.now(),
            )
            self._looked = now
        return self._own
