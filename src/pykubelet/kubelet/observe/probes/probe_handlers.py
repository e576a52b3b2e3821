"""`ProbeHandlers`: the execution of each kind of probe, the only part of the probes that does I/O.

Responses that may come from another host are kept out of events: an httpGet may name any host, so its body is not
shown (except for redirects). The output of a command in the container is shown.
"""

import asyncio
import ipaddress
import os
import socket
from collections.abc import Sequence
from typing import assert_never

from pykubelet.base.errors import LACKING, Invalid, PykubeletError, Transient
from pykubelet.base.http.http_get import (
    HttpGet,
    HttpGetFailed,
    HttpGetter,
    connect_failure,
    http_url,
    with_defaults,
)
from pykubelet.base.units import KIB, Seconds
from pykubelet.kubelet.observe.probes import grpc_health
from pykubelet.kubelet.observe.probes.plan.probe_rules import timing
from pykubelet.kubelet.observe.probes.probe_interfaces import ExecSync
from pykubelet.kubelet.observe.probes.probe_types import ProbeObservation, ProbeTarget, ProbeVerdict
from pykubelet.kubelet.types.podspec import port_number
from pykubelet.models.core_v1 import ExecAction, GRPCAction, HTTPGetAction, TCPSocketAction

USER_AGENT = "kube-probe/1.36"
"""The Go kubelet's user agent; servers filter their logs by it."""

_OUTPUT_LIMIT = 10 * KIB
_TRIES = 3
_EXEC_GRACE: Seconds = 2.0
"""Seconds beyond the probe's timeout that the runtime has to kill the command and reply."""

_SUCCESS = ProbeObservation(ProbeVerdict.SUCCESS)


class ProbeHandlers:
    """The `Prober` of a node. Use it in one event loop, and close it at the end."""

    def __init__(self, exec_sync: ExecSync) -> None:
        self._exec_sync = exec_sync
        self._http = HttpGetter()

    async def close(self) -> None:
        """Close open connections."""
        await self._http.close()

    async def probe(self, target: ProbeTarget) -> ProbeObservation:
        """Run the probe; a transient error is retried up to two times."""
        for attempt in range(1, _TRIES + 1):
            try:
                return await self._probe_once(target)
            except Transient as error:
                if attempt == _TRIES:
                    return ProbeObservation(ProbeVerdict.ERROR, str(error))
            except PykubeletError as error:
                return ProbeObservation(ProbeVerdict.ERROR, str(error))
        raise AssertionError("the last try returns")

    async def _probe_once(self, target: ProbeTarget) -> ProbeObservation:
        probe = target.probe
        match probe.exec or probe.http_get or probe.tcp_socket or probe.grpc:
            case ExecAction():
                return await self._exec(target)
            case HTTPGetAction() as action:
                return await self._http_get(target, action)
            case TCPSocketAction() as action:
                return await _tcp_socket(target, action)
            case GRPCAction() as action:
                host = _host(target, "")
                return await grpc_health.check(host, action.port, action.service, timing(probe).timeout, USER_AGENT)
            case None:
                raise Invalid(f"the probe of {target.ref}:{target.container.name} says nothing to do")
            case unreachable:
                assert_never(unreachable)

    async def _exec(self, target: ProbeTarget) -> ProbeObservation:
        seconds, command = timing(target.probe).timeout, target.command
        if isinstance(command, str):
            raise Invalid(command)
        try:
            async with asyncio.timeout(seconds + _EXEC_GRACE):
                result = await self._exec_sync(target.container_id, command, seconds)
        except TimeoutError:
            return ProbeObservation(
                ProbeVerdict.FAILURE, f'command timed out: "{" ".join(command)}" timed out after {seconds:g}s'
            )
        if result.exit_code == 0:
            return _SUCCESS
        output = (result.stdout + result.stderr)[:_OUTPUT_LIMIT]
        return ProbeObservation(ProbeVerdict.FAILURE, output.decode(errors="replace"))

    async def _http_get(self, target: ProbeTarget, action: HTTPGetAction) -> ProbeObservation:
        url = http_url(action.scheme, _host(target, action.host), _port(target, action.port), action.path)
        headers = with_defaults(((h.name, h.value) for h in action.http_headers), USER_AGENT)
        try:
            reply = await self._http.get(HttpGet(url, headers), timing(target.probe).timeout)
        except HttpGetFailed as error:
            return ProbeObservation(ProbeVerdict.FAILURE, str(error))
        if 200 <= reply.status < 300:
            return _SUCCESS
        if 300 <= reply.status < 400:
            # As upstream, the only response whose body is shown: it contains the target of the redirect.
            body = reply.body.decode(errors="replace")
            return ProbeObservation(ProbeVerdict.WARNING, f"Probe terminated redirects, Response body: {body}")
        return ProbeObservation(ProbeVerdict.FAILURE, f"HTTP probe failed with statuscode: {reply.status}")


async def _tcp_socket(target: ProbeTarget, action: TCPSocketAction) -> ProbeObservation:
    host, port = _host(target, action.host), _port(target, action.port)
    seconds = timing(target.probe).timeout
    try:
        async with asyncio.timeout(seconds):
            await _connect(host, port)
    except TimeoutError:
        return ProbeObservation(ProbeVerdict.FAILURE, f"connect to {host} port {port}: no answer within {seconds:g} s")
    except OSError as error:
        if error.errno in LACKING:  # of the agent: it says nothing about the container
            raise Transient(f"cannot connect to {host} port {port}: {os.strerror(error.errno or 0)}") from error
        return ProbeObservation(ProbeVerdict.FAILURE, f"connect to {host} port {port}: {connect_failure(error)}")
    return _SUCCESS


async def _connect(host: str, port: int) -> None:
    """Connect and close, with plain sockets, since asyncio's streams cost five times as much."""
    loop = asyncio.get_running_loop()
    failure: OSError | None = None
    for family, address in await _resolve(host, port):
        with socket.socket(family, socket.SOCK_STREAM) as connection:
            connection.setblocking(False)
            try:
                await loop.sock_connect(connection, address)
                return
            except OSError as error:
                failure = error
    raise failure or OSError(f"{host} has no address")


async def _resolve(host: str, port: int) -> Sequence[tuple[int, tuple[str | int | bytes, ...]]]:
    """Return (address family, socket address) of the host; IP addresses need no look-up, which would take a thread."""
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [(info[0], info[4]) for info in found]
    return [(family, (host, port))]


def _host(target: ProbeTarget, named: str) -> str:
    """Return the host that the probe names, else the pod's address. Raises Transient if there is neither."""
    if host := named or target.pod_ip:
        return host
    raise Transient(f"{target.ref} has no IP address to probe yet")


def _port(target: ProbeTarget, port: int | str) -> int:
    number = port_number(target.container, port)
    if number is None:
        raise Invalid(
            f"port {port!r} is neither a port number nor the name of a port of {target.ref}:{target.container.name}"
        )
    return number
