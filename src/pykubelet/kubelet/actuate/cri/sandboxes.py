"""CRI calls about pod sandboxes."""

import logging

from pykubelet.kubelet.actuate.cri import calls
from pykubelet.kubelet.actuate.cri.caller import Caller, bad_reply
from pykubelet.kubelet.types.ids import SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)


class SandboxCalls(Caller):
    """Sandbox calls of `CriClient`. All methods raise `CriError` and its base classes in `base.errors`."""

    async def run_pod_sandbox(self, config: pb.PodSandboxConfig, runtime_handler: str = "") -> SandboxID:
        """Create and start a sandbox; return its id. The deadline is twice the usual one, since CNI is slow.

        After an error there is no sandbox, except after `CriTimeout`: check with `list_pod_sandboxes`.
        """
        meta = config.metadata
        pod = f"{meta.namespace}/{meta.name}"
        fields = {"pod": pod, "uid": meta.uid, "attempt": meta.attempt}
        _log.debug("running sandbox", extra=fields | {"handler": runtime_handler})
        request = pb.RunPodSandboxRequest(config=config, runtime_handler=runtime_handler)
        begun, made = self._clock.monotonic(), False
        try:
            reply = await self._call_unbroken(calls.RUN_POD_SANDBOX, request, pod, extra=self._request_timeout)
            if not reply.pod_sandbox_id:
                raise bad_reply(calls.RUN_POD_SANDBOX, pod, "no sandbox id")
            made = True
        finally:
            self._meter.sandbox(runtime_handler, self._clock.monotonic() - begun, failed=not made)
        _log.debug("sandbox runs", extra=fields | {"sandbox": reply.pod_sandbox_id})
        return SandboxID(reply.pod_sandbox_id)

    async def stop_pod_sandbox(self, sandbox: SandboxID) -> None:
        """Kill the processes of the sandbox and release its network. Succeeds if it is stopped already.

        containerd 1.6 raises `NotFound` for an unknown sandbox; callers treat that as success.
        """
        await self._call_unbroken(calls.STOP_POD_SANDBOX, pb.StopPodSandboxRequest(pod_sandbox_id=sandbox), sandbox)

    async def remove_pod_sandbox(self, sandbox: SandboxID) -> None:
        """Remove the sandbox and its containers, by force. Succeeds if it does not exist."""
        await self._call_unbroken(calls.REMOVE_POD_SANDBOX, pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox), sandbox)

    async def pod_sandbox_status(self, sandbox: SandboxID, *, verbose: bool = False) -> pb.PodSandboxStatusResponse:
        """Read the sandbox's status. Raises `NotFound`. `verbose` fills `info` with runtime-specific JSON."""
        request = pb.PodSandboxStatusRequest(pod_sandbox_id=sandbox, verbose=verbose)
        reply = await self._call(calls.POD_SANDBOX_STATUS, request, sandbox)
        fault = sandbox_fault(reply.status)
        if fault:
            raise bad_reply(calls.POD_SANDBOX_STATUS, sandbox, fault)
        return reply

    async def list_pod_sandboxes(self, filter: pb.PodSandboxFilter | None = None) -> list[pb.PodSandbox]:
        """List the sandboxes that match the filter; all without a filter."""
        parts = await self._parts(calls.STREAM_POD_SANDBOXES, pb.StreamPodSandboxesRequest(filter=filter))
        if parts is not None:
            return [sandbox for part in parts for sandbox in part.pod_sandboxes]
        reply = await self._call(calls.LIST_POD_SANDBOX, pb.ListPodSandboxRequest(filter=filter))
        return list(reply.items)

    async def update_pod_sandbox_resources(
        self,
        sandbox: SandboxID,
        overhead: pb.LinuxContainerResources | None,
        resources: pb.LinuxContainerResources | None,
    ) -> None:
        """Notify the runtime of a resize of the pod's cgroup (KEP-1287). Raises `Unsupported` in older runtimes."""
        request = pb.UpdatePodSandboxResourcesRequest(pod_sandbox_id=sandbox, overhead=overhead, resources=resources)
        await self._call(calls.UPDATE_POD_SANDBOX_RESOURCES, request, sandbox)

    async def port_forward(self, sandbox: SandboxID, ports: list[int]) -> str:
        """Prepare port forwarding to these ports (empty: all); return the URL of the streaming server."""
        request = pb.PortForwardRequest(pod_sandbox_id=sandbox, port=ports)
        reply = await self._call(calls.PORT_FORWARD, request, sandbox)
        if not reply.url:
            raise bad_reply(calls.PORT_FORWARD, sandbox, "no URL")
        return reply.url


def sandbox_fault(status: pb.PodSandboxStatus) -> str:
    """Describe the required field that a sandbox status lacks; empty if it is complete."""
    meta = status.metadata
    if not status.id:
        return "no sandbox id"
    if not (meta.name and meta.namespace and meta.uid):
        return "no pod name, namespace or uid"
    return "" if status.created_at else "no creation time"
