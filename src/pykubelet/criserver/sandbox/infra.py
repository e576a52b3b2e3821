"""The infra process of sandboxes with a shared PID namespace: an init that reaps zombies, run as a container."""

import logging
import os
import shutil
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Invalid, NotFound, Permanent, PykubeletError
from pykubelet.base.files.atomic import write_atomic
from pykubelet.criserver.config.host_facts import cgroup_of
from pykubelet.criserver.container.bundle.prepare import write_bundle
from pykubelet.criserver.container.container_interfaces import ImageFacts
from pykubelet.criserver.machine import Machine
from pykubelet.criserver.processes import reference
from pykubelet.criserver.runtimes import Task, TaskStreams
from pykubelet.criserver.sandbox.layout import SandboxLayout, owner_of
from pykubelet.criserver.sandbox.plan.requests import namespace_options, needs_infra
from pykubelet.criserver.sandbox.sandbox_interfaces import PauseImages
from pykubelet.criserver.sandbox.state.sandbox_state import Sandbox
from pykubelet.criserver.spec import InfraProgram, build_infra, infra_annotations, node_program
from pykubelet.criserver.spec.security.labels import file_label, process_label
from pykubelet.criserver.spec.userns import id_map
from pykubelet.criserver.types import ContainerID, IdMap, ProcessRef, SandboxID, UserNamespace
from pykubelet.linux.selinux import check_labels, relabel

_log = logging.getLogger(__name__)
_OOM_SCORE = -998


class InfraPrograms(Struct, frozen=True, kw_only=True):
    """The program of infra processes: that of ``pause_image`` if it is configured and usable, else the node's."""

    node: str
    """Name or path of a program of the node."""
    pause_image: str = ""
    label: str = ""
    """SELinux label of files that confined processes may run; empty: without SELinux."""
    copies: Path = Path()
    """The directory for a copy of the node's program with that label, since the node's own is not for containers."""


class Infra:
    """Start and stop of infra processes. The OCI container has the sandbox's id."""

    def __init__(
        self, *, machine: Machine, images: PauseImages, layout: SandboxLayout, programs: InfraPrograms
    ) -> None:
        self._machine = machine
        self._images = images
        self._layout = layout
        self._programs = programs

    def needed(self, sandbox: Sandbox) -> bool:
        """Whether the sandbox has an infra process: for a shared PID namespace, or because its runtime needs one."""
        return needs_infra(sandbox.config) or self._machine.handlers.runtime(sandbox.record.handler).sandbox_tasks

    async def wait(self, sandbox: Sandbox) -> None:
        """Wait for the end of the infra process."""
        await self._machine.handlers.runtime(sandbox.record.handler).wait(self._task(sandbox))

    def _task(self, sandbox: Sandbox) -> Task:
        runtime = self._machine.handlers.runtime(sandbox.record.handler)
        return Task(
            id=ContainerID(sandbox.id),
            sandbox=sandbox.id,
            bundle=self._layout.infra_bundle(sandbox.id),
            cgroup=cgroup_of(sandbox.config.linux.cgroup_parent, sandbox.id, runtime.systemd),
            process=sandbox.record.infra,
        )

    async def start(
        self, sandbox: Sandbox, namespaces: dict[str, str], user_namespace: UserNamespace | None
    ) -> ProcessRef:
        """Start an infra process in these namespaces. Permanent: it cannot run. NotFound: it ended at once."""
        runtime = self._machine.handlers.runtime(sandbox.record.handler)
        bundle = self._layout.infra_bundle(sandbox.id)
        ids = id_map(namespace_options(sandbox.config))
        await blocking.call_to_end(owner_of(sandbox.id), _make, bundle, ids)
        program, rootfs = await self._program(sandbox.id, bundle, user_namespace)
        labels = self._labels(sandbox)
        if any(labels):
            await blocking.call(owner_of(sandbox.id), check_labels, *labels)
        if program.source and labels[0]:
            copy = await blocking.call_to_end("infra", _labelled_copy, program.source, self._programs)
            program = replace(program, source=copy)
        spec = build_infra(
            program=program,
            rootfs=str(rootfs),
            cgroup=self._task(sandbox).cgroup,
            namespaces=namespaces,
            oom_score=max(_OOM_SCORE, self._machine.host.least_oom_score),
            ids=ids,
            annotations=infra_annotations(
                sandbox.id,
                sandbox.config,
                self._machine.options(sandbox.record.handler),
                "" if program.source else self._programs.pause_image,
            ),
            labels=labels,
            hostname=sandbox.config.hostname if runtime.names_host and "uts" in namespaces else "",
        )
        await blocking.call_to_end(owner_of(sandbox.id), write_bundle, bundle, spec)
        task = self._task(sandbox)
        launched = await runtime.create(task, TaskStreams())
        process = reference(launched.pid)
        await runtime.start(replace(task, process=process))
        if process is None:
            raise NotFound(f"the infra process of sandbox {sandbox.id} ended at once")
        return process

    def _labels(self, sandbox: Sandbox) -> tuple[str, str]:
        context, host = sandbox.config.linux.security_context, self._machine.host
        level = sandbox.record.selinux_level
        return process_label(context, host, level), file_label(context, host, level)

    async def _program(self, sandbox: SandboxID, bundle: Path, user: UserNamespace | None) -> tuple[InfraProgram, Path]:
        """Select program and root file system: the configured pause image, else the node's program."""
        programs, why = self._programs, ""
        if programs.pause_image:
            try:
                image = await self._images.ensure(programs.pause_image)
                program = _of_image(image)
                return program, await self._images.prepare(image.id, ContainerID(sandbox), user)
            except PykubeletError as error:
                why = f"; pause_image {programs.pause_image} cannot be used: {error}"
        path = await blocking.call("infra", shutil.which, programs.node)
        if path is None:
            raise Permanent(
                f"a pod with a shared PID namespace needs a program that holds it; {programs.node} does not exist: "
                f"install it (apt-get install catatonit), or name an image as pause_image in the configuration{why}"
            )
        if why:
            _log.warning(
                "pause image unavailable: using the node's infra program", extra={"program": path, "why": why[2:]}
            )
        return node_program(path), bundle / "root"

    async def stop(self, sandbox: Sandbox) -> None:
        """Kill the infra process and remove its resources. Idempotent, also after an interrupted start."""
        identity = sandbox.id
        runtime = self._machine.handlers.runtime(sandbox.record.handler)
        bundle = self._layout.infra_bundle(identity)
        if not await blocking.call(owner_of(identity), bundle.exists):
            if self.needed(sandbox):
                # A reboot removes the bundle, but not the root file system.
                await self._images.release(ContainerID(identity))
            return
        task = self._task(sandbox)
        await runtime.end_launch(task)
        if not runtime.systemd:
            await blocking.call_to_end(owner_of(identity), self._machine.cgroups.delete, task.cgroup)
        await runtime.delete(task, emptied=not runtime.systemd)
        await self._images.release(ContainerID(identity))
        await blocking.call_to_end(owner_of(identity), _remove, self._machine.conmon.exits / identity, bundle)


def _of_image(image: ImageFacts) -> InfraProgram:
    """The program of an image; the user of the image is ignored. Invalid: it defines no entrypoint or command."""
    defaults = image.defaults
    args = (*defaults.entrypoint, *defaults.cmd)
    if not args:
        raise Invalid("it defines no program (entrypoint or command)")
    return InfraProgram(args, defaults.env or ("PATH=/",), defaults.working_dir or "/")


def _labelled_copy(program: str, programs: InfraPrograms) -> str:
    """The copy of a program of the node that confined processes may run. Blocks."""
    copy, data = programs.copies / "init", Path(program).read_bytes()
    if not copy.exists() or copy.read_bytes() != data:
        programs.copies.mkdir(mode=0o755, parents=True, exist_ok=True)
        write_atomic(copy, data, 0o755)
    relabel(str(copy), programs.label)
    return str(copy)


def _remove(exit_note: Path, bundle: Path) -> None:
    exit_note.unlink(missing_ok=True)
    shutil.rmtree(bundle, ignore_errors=True)


def _make(bundle: Path, ids: IdMap | None) -> None:
    for directory in (bundle, bundle / "root", bundle / "root" / "proc"):
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    (bundle / "root" / "init").touch()
    if ids is not None:
        # The OCI runtime traverses it as the root user of the user namespace; other users may not.
        os.chown(bundle, 0, ids.gid)
        bundle.chmod(0o710)
        os.chown(bundle / "root", ids.uid, ids.gid)
