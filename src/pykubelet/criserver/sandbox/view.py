"""View of a sandbox that its containers need."""

from pykubelet.base.errors import Permanent
from pykubelet.criserver.machine import Machine
from pykubelet.criserver.runtimes import ContainerRuntime
from pykubelet.criserver.sandbox.files import HOSTNAME, HOSTS, RESOLV_CONF
from pykubelet.criserver.sandbox.layout import SandboxLayout
from pykubelet.criserver.sandbox.state.sandbox_state import Sandbox
from pykubelet.criserver.sandbox.state.table import SandboxTable
from pykubelet.criserver.spec import SandboxView
from pykubelet.criserver.types import ProcessRef, SandboxID
from pykubelet.linux.system import hostname


class SandboxViews:
    """The sandboxes as containers see them; a ``Sandboxes`` of ``container``."""

    def __init__(self, *, table: SandboxTable, layout: SandboxLayout, machine: Machine) -> None:
        self._table = table
        self._layout = layout
        self._machine = machine
        self._handlers = machine.handlers

    def view(self, sandbox: SandboxID) -> SandboxView:
        """Return what a container needs of its sandbox. NotFound; Permanent: it is not ready or is being stopped."""
        found = self._ready(sandbox)
        files = self._layout.files(found.id)
        etc = files.etc()
        return SandboxView(
            hostname=found.config.hostname or hostname(),
            config=found.config,
            namespaces=self._layout.namespace_paths(found),
            resolv_conf=str(etc / RESOLV_CONF),
            hosts=str(etc / HOSTS),
            hostname_file=str(etc / HOSTNAME),
            shm=str(files.shm),
            user=self._layout.user_namespace(found),
            id=found.id,
            selinux_level=found.record.selinux_level,
            handler=self._machine.options(found.record.handler),
        )

    def check_ready(self, sandbox: SandboxID) -> None:
        """Check that containers may be created and started in it. NotFound; Permanent: not ready, or being stopped."""
        self._ready(sandbox)

    def handler(self, sandbox: SandboxID) -> str:
        """The runtime handler of a sandbox; the default one if it is unknown or no longer configured."""
        found = self._table.lookup(sandbox)
        return self._handlers.default if found is None else self._handlers.recorded(found.record.handler)

    def runtime(self, sandbox: SandboxID) -> ContainerRuntime:
        """The runtime of a sandbox: the one of its ``handler``."""
        return self._handlers.runtime(self.handler(sandbox))

    def infra_process(self, sandbox: SandboxID) -> ProcessRef | None:
        """Its infra process, which holds the PID namespace; None: it has none. NotFound."""
        return self._table.get(sandbox).record.infra

    def _ready(self, sandbox: SandboxID) -> Sandbox:
        found = self._table.get(sandbox)
        if not found.ready:
            raise Permanent(f"sandbox {sandbox} is not ready")
        if found.stopping:
            raise Permanent(f"sandbox {sandbox} is being stopped")
        return found
