"""Calls that return URLs of the streaming server: Exec, Attach, PortForward."""

from pykubelet.base.errors import Invalid, Permanent
from pykubelet.criserver.container import ContainerComponents
from pykubelet.criserver.sandbox import SandboxComponents
from pykubelet.criserver.server.call_table import Calls
from pykubelet.criserver.streaming import AttachTarget, Execution, Forward, StreamingServer
from pykubelet.criserver.streaming.commands.session import ExecSession
from pykubelet.criserver.streaming.streaming_types import Streams
from pykubelet.pb import runtime_v1_pb2 as pb


class StreamingCalls:
    """Exec, Attach and PortForward; each registers a request with the streaming server."""

    def __init__(
        self, *, server: StreamingServer, containers: ContainerComponents, sandboxes: SandboxComponents
    ) -> None:
        self._server = server
        self._containers = containers
        self._sandboxes = sandboxes

    def register(self, calls: Calls) -> None:
        """Register the calls of this group."""
        calls.unary("Exec", pb.ExecRequest, self.exec)
        calls.unary("Attach", pb.AttachRequest, self.attach)
        calls.unary("PortForward", pb.PortForwardRequest, self.port_forward)

    async def exec(self, request: pb.ExecRequest) -> pb.ExecResponse:
        """Return a URL for running a command in a running container."""
        container = self._containers.table.running(request.container_id)
        if not request.cmd:
            raise Invalid("Exec needs a command")
        streams = _streams(request)
        target = Execution(container.id, tuple(request.cmd), streams)
        return pb.ExecResponse(url=self._server.url(target))

    async def attach(self, request: pb.AttachRequest) -> pb.AttachResponse:
        """Return a URL for attaching to a running container's streams."""
        container = self._containers.table.running(request.container_id)
        once = container.config.stdin_once
        commands = self._containers.commands
        task = commands.task(container)
        control = commands.runtime(container).control(task)
        target = AttachTarget(container.id, task.bundle, _streams(request), control, once)
        return pb.AttachResponse(url=self._server.url(target))

    async def port_forward(self, request: pb.PortForwardRequest) -> pb.PortForwardResponse:
        """Return a URL for forwarding ports of a ready sandbox."""
        sandbox = self._sandboxes.table.get(request.pod_sandbox_id)
        if not sandbox.ready:
            raise Permanent(f"sandbox {sandbox.id} is not ready")
        wrong = [port for port in request.port if not 0 < port < 65536]
        if wrong:
            raise Invalid(f"invalid port {wrong[0]}: must be from 1 to 65535")
        target = Forward(sandbox.id, self._sandboxes.layout.netns(sandbox), tuple(request.port))
        return pb.PortForwardResponse(url=self._server.url(target))


class ContainerExecutor:
    """Implementation of ``streaming.commands.execute.Executor`` with the components of containers."""

    def __init__(self, containers: ContainerComponents) -> None:
        self._containers = containers

    async def prepare(self, execution: Execution) -> ExecSession:
        """Prepare the command to run. NotFound, Permanent: the container has exited meanwhile."""
        container = self._containers.table.running(execution.container)
        commands, streams = self._containers.commands, execution.streams
        process = await commands.process(container, execution.command, streams.terminal)
        return await commands.runtime(container).session(commands.task(container), process, streams)


def _streams(request: pb.ExecRequest | pb.AttachRequest) -> Streams:
    if request.tty and request.stderr:
        raise Invalid("tty and stderr cannot both be set: a terminal has no separate stderr")
    if not (request.stdin or request.stdout or request.stderr):
        raise Invalid("at least one of stdin, stdout and stderr is needed")
    return Streams(request.stdin, request.stdout, request.stderr, request.tty)
