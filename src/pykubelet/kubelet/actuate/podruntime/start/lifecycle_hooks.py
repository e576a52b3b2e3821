"""Runs lifecycle hooks of containers: postStart and preStop."""

import asyncio
import logging
from urllib.parse import urlsplit

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.errors import PykubeletError
from pykubelet.base.http.http_get import HttpGet, PlainHttpAnswer, http_url
from pykubelet.base.http.port_number import parse_port
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.podruntime.podruntime_interfaces import Cri, HttpGetter
from pykubelet.kubelet.types.ids import ContainerID, PodRef
from pykubelet.kubelet.types.reports.events import WARNING, EventRecorder
from pykubelet.kubelet.types.reports.work_meter import NoMeter, WorkMeter
from pykubelet.models.core_v1 import ContainerPort, HTTPGetAction, LifecycleHandler

_log = logging.getLogger(__name__)

_OUTPUT_SHOWN = 1024
_FALLBACK = "LifecycleHTTPFallback"
_NO_METER = NoMeter()


class HookTarget(Struct, frozen=True):
    """Container that a hook belongs to."""

    ref: PodRef
    container: str
    id: ContainerID
    ports: tuple[ContainerPort, ...] = ()
    ips: tuple[str, ...] = ()
    """Addresses of the pod, primary first."""


class HookError(PykubeletError):
    """A hook failed. The message may contain output of the container: use it in the status, not in events."""


class HookRunner:
    """Runs hooks: a command in the container, an HTTP request, or a sleep; never a command on the host."""

    def __init__(
        self, *, cri: Cri, http: HttpGetter, events: EventRecorder, clock: Clock, meter: WorkMeter = _NO_METER
    ) -> None:
        self._cri = cri
        self._http = http
        self._events = events
        self._clock = clock
        self._meter = meter

    async def run(self, hook: LifecycleHandler, target: HookTarget) -> None:
        """Run the hook to completion; a command has no time limit. Raises ``HookError``."""
        try:
            if hook.exec is not None:
                await self._exec(hook.exec.command, target)
            elif hook.http_get is not None:
                await self._get(hook.http_get, target)
            elif hook.sleep is not None:
                await self._sleep(hook.sleep.seconds)
            else:
                # The API accepts tcpSocket for compatibility and documents that it fails at run time.
                raise HookError("unsupported lifecycle hook: use exec, httpGet or sleep; tcpSocket is not supported")
        except PykubeletError as error:
            _log.info(
                "lifecycle hook failed",
                extra={"pod": str(target.ref), "container": target.container, "error": str(error)},
            )
            raise HookError(_message(hook, target, error)) from error

    async def _sleep(self, seconds: Seconds) -> None:
        try:
            await self._clock.sleep(seconds)
        except asyncio.CancelledError:
            self._meter.hook_sleep_ended()
            raise

    async def _get(self, action: HTTPGetAction, target: HookTarget) -> None:
        """Send the request; any response is a success. Falls back to HTTP if an HTTPS server does not speak TLS."""
        request = http_request(action, target)
        try:
            await self._http(request)
        except PlainHttpAnswer:
            await self._http(http_request(action, target, plain=True))
            host = urlsplit(request.url).netloc
            message = f"request to HTTPS lifecycle hook {host} got HTTP response, retry with HTTP succeeded"
            self._events.event(target.ref, WARNING, _FALLBACK, message)
            self._meter.hook_fell_back()

    async def _exec(self, command: tuple[str, ...], target: HookTarget) -> None:
        reply = await self._cri.exec_sync(target.id, command)
        if reply.exit_code:
            output = (reply.stdout + reply.stderr)[:_OUTPUT_SHOWN].decode(errors="replace")
            raise HookError(f"command '{' '.join(command)}' exited with {reply.exit_code}: {output}")


def http_request(action: HTTPGetAction, target: HookTarget, *, plain: bool = False) -> HttpGet:
    """Build the request of an httpGet hook; without a host it goes to the pod. Raises ``HookError``.

    With ``plain`` the request uses http whatever the hook's scheme is, and has no Authorization header.
    """
    host = action.host or next(iter(target.ips), "")
    if not host:
        raise HookError("httpGet hook without a host: the pod has no IP address")
    headers = tuple((header.name, header.value) for header in action.http_headers)
    if plain:
        headers = tuple(h for h in headers if h[0].lower() != "authorization")
    scheme = "http" if plain else action.scheme
    return HttpGet(http_url(scheme, host, _port(action.port, target.ports), action.path), headers)


def _port(port: int | str, ports: tuple[ContainerPort, ...]) -> int:
    if isinstance(port, str):
        named = next((p.container_port for p in ports if p.name == port), None)
        number = named if named is not None else parse_port(port) or 0
    else:
        number = port
    if not 0 < number < 65536:
        raise HookError(f"{port!r} is neither a port number nor the name of a port of the container")
    return number


def _message(hook: LifecycleHandler, target: HookTarget, error: PykubeletError) -> str:
    kind = "Lifecycle hook"
    if hook.exec is not None:
        kind = f"Exec lifecycle hook ([{' '.join(hook.exec.command)}])"
    elif hook.http_get is not None:
        kind = f"HTTP lifecycle hook ({hook.http_get.path})"
    elif hook.sleep is not None:
        kind = f"Sleep lifecycle hook ({hook.sleep.seconds})"
    ref = target.ref
    pod = f"{ref.name}_{ref.namespace}({ref.uid})"
    return f'{kind} for Container "{target.container}" in Pod "{pod}" failed - error: {error}'
