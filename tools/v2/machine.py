"""Boot the emulated machine and run commands in it.

The host's processor executes the machine if it can (KVM). Otherwise qemu emulates it (TCG): the host needs no support
for virtualization, and the machine is 10 to 30 times slower. What it changes on its root disk lasts until qemu ends,
also over a reboot. Commands go through the guest agent (qemu-ga(8)) on a virtio-serial port; the console goes to a
file.
"""

import base64
import json
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.v2 import selinux
from tools.v2.image import Image

PROGRAM = "qemu-system-x86_64"
_BOOT_SECONDS = 1800.0
_COMMAND_SECONDS = 1800.0
_KVM_BOOT_SECONDS = 60.0
"""Limit of a boot on the host's processor; afterwards the machine is emulated."""
_ANSWER_SECONDS = 120.0
_POLL_SECONDS = 0.2
_KERNEL = (
    "root=/dev/vda rw console=ttyS0 quiet loglevel=4 mitigations=off nokaslr "
    "random.trust_cpu=on systemd.unified_cgroup_hierarchy=1 systemd.show_status=no no_timer_check"
)
_APPARMOR = "apparmor=1 security=apparmor audit=0"


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A command that has ended in the machine."""

    status: int
    """Its exit status; 128 and the signal's number if a signal killed it."""
    out: str
    error: str


class MachineError(Exception):
    """The machine did not boot, answer or do something in time; the text has the end of its console."""


class MachineLostError(MachineError):
    """There is no machine: it did not boot, or qemu has ended."""


class Machine:
    """One emulated machine; its files (console, sockets) are in ``directory``."""

    def __init__(self, image: Image, project: Path, directory: Path) -> None:
        self._image = image
        self._project = project
        self._directory = directory
        self._qemu: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._received = b""
        self._accelerator = ""
        self.boot_seconds = 0.0
        """Duration of the first boot."""

    @property
    def accelerator(self) -> str:
        """``kvm`` or ``tcg``; empty before the start."""
        return self._accelerator

    @property
    def pid(self) -> int:
        """The process of qemu; 0 before the start."""
        return self._qemu.pid if self._qemu else 0

    @property
    def console(self) -> Path:
        """File with the output of the kernel and systemd on the serial console."""
        return self._directory / "console.log"

    @property
    def cpu_seconds(self) -> float:
        """CPU time that qemu has used: what the machine has worked, however busy the host is. 0 before the start."""
        if self._qemu is None:
            return 0.0
        fields = Path(f"/proc/{self._qemu.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def boot(self, seconds: float = _BOOT_SECONDS) -> None:
        """Start the machine and wait until it runs commands. MachineLostError: not within that time."""
        if kvm_works():
            try:
                self._boot("kvm", min(seconds, _KVM_BOOT_SECONDS))
            except (MachineError, OSError):
                self.destroy()
            else:
                return
        self._boot("tcg", seconds)

    def _boot(self, accelerator: str, seconds: float) -> None:
        began = time.monotonic()
        self.start(accelerator)
        self._until(lambda: self._answers(), seconds, "the machine did not boot")
        self.boot_seconds = time.monotonic() - began

    def start(self, accelerator: str = "tcg") -> None:
        """Start qemu; returns before the machine has booted."""
        self._accelerator = accelerator
        self._directory.mkdir(parents=True, exist_ok=True)
        for name in ("channel", "monitor"):
            (self._directory / name).unlink(missing_ok=True)
        with (self._directory / "qemu.log").open("wb") as log:
            self._qemu = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._until((self._directory / "channel").exists, _ANSWER_SECONDS, "qemu did not start")
        self._channel = socket.socket(socket.AF_UNIX)
        try:
            self._channel.connect(str(self._directory / "channel"))
        except ConnectionRefusedError as error:
            raise MachineLostError(self._why("qemu did not start: qemu has ended")) from error

    def run(self, script: str, seconds: float = _COMMAND_SECONDS) -> CommandResult:
        """Run a shell script as root and wait for its end."""
        pid = self._call("guest-exec", path="/bin/sh", arg=["-c", script], **{"capture-output": True})["pid"]
        ended: dict[str, Any] = {}

        def has_ended() -> bool:
            ended.update(self._call("guest-exec-status", pid=pid))
            return bool(ended["exited"])

        self._until(has_ended, seconds, f"a command did not end: {script}")
        out, error = (
            base64.b64decode(ended.get(f"{name}-data", "")).decode(errors="replace") for name in ("out", "err")
        )
        return CommandResult(ended.get("exitcode", 128 + ended.get("signal", 0)), out, error)

    def write(self, path: str, content: str) -> None:
        """Write a file in the machine, with its directories, atomically (rename)."""
        parent, _, name = path.rpartition("/")
        encoded = base64.b64encode(content.encode()).decode()
        script = (
            f"mkdir -p {parent} && echo {encoded} | base64 -d > {parent}/.{name}.new && mv {parent}/.{name}.new {path}"
        )
        done = self.run(script)
        if done.status != 0:
            raise MachineError(f"cannot write {path}: {done.error}")

    def reboot(self, command: str = "systemctl reboot") -> None:
        """Run the command that reboots the machine, and wait until it has booted again."""
        before = self._boot_id()
        # Its end is not waited for: the machine goes down with the guest agent that would tell.
        self._call("guest-exec", path="/bin/sh", arg=["-c", command])
        self._until(lambda: self._boot_id() not in ("", before), _BOOT_SECONDS, "the machine did not reboot")

    def lose_power(self) -> None:
        """Reset the machine at once, without writing its caches to its disk, and wait until it has booted again."""
        before = self._boot_id()
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(_ANSWER_SECONDS)
            monitor.connect(str(self._directory / "monitor"))
            with monitor.makefile("rwb") as file:
                for command in ("qmp_capabilities", "system_reset"):
                    file.write(json.dumps({"execute": command}).encode() + b"\n")
                    file.flush()
                    while "return" not in json.loads(file.readline()):
                        pass
        self._until(lambda: self._boot_id() not in ("", before), _BOOT_SECONDS, "the machine did not boot again")

    def stop(self) -> int:
        """Power the machine off, and return qemu's exit status."""
        if self._qemu is None:
            return 0
        try:
            self._call("guest-shutdown", answered=False, mode="powerdown")
            return self._qemu.wait(_BOOT_SECONDS)
        finally:
            self.destroy()

    def destroy(self) -> None:
        """End qemu at once."""
        if self._qemu is not None:
            self._qemu.kill()
            self._qemu.wait()
            self._qemu = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _command(self) -> list[str]:
        kernel = f"{_KERNEL} {selinux.KERNEL if self._image.enforcing else _APPARMOR}"
        disk = "if=virtio,format=raw,snapshot=on,cache=unsafe"
        return [
            *(PROGRAM, "-machine", f"q35,accel={self._accelerator}", "-cpu", "max", "-m", str(memory_mib())),
            *("-smp", str(min(os.cpu_count() or 1, 2))),
            *("-nodefaults", "-no-user-config", "-display", "none", "-device", "virtio-rng-pci"),
            *("-kernel", str(self._image.kernel), "-initrd", str(self._image.initrd), "-append", kernel),
            *("-drive", f"file={self._image.root},{disk}", "-drive", f"file={self._project},{disk}"),
            *("-device", "virtio-serial-pci", "-device", "virtserialport,chardev=channel,nr=1"),
            *("-chardev", f"socket,id=channel,path={self._directory / 'channel'},server=on,wait=off"),
            *("-serial", f"file:{self.console}"),
            *("-qmp", f"unix:{self._directory / 'monitor'},server=on,wait=off"),
        ]

    def _boot_id(self) -> str:
        """The kernel's id of this boot; empty while the machine is not responding."""
        try:
            return self.run("cat /proc/sys/kernel/random/boot_id").out.strip() if self._answers() else ""
        except (TimeoutError, MachineError):
            return ""  # it went down in between

    def _answers(self) -> bool:
        """Whether the guest agent answers now. What it sent before is dropped."""
        number = secrets.randbelow(1 << 30)
        try:
            # 0xff makes the agent drop a request of which it has only seen a part.
            self._send(b"\xff" + json.dumps({"execute": "guest-sync", "arguments": {"id": number}}).encode() + b"\n")
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline:
                if self._receive(deadline).get("return") == number:
                    return True
        except (TimeoutError, BlockingIOError):
            return False
        return False

    def _call(self, name: str, *, answered: bool = True, **arguments: object) -> dict[str, Any]:
        self._send(json.dumps({"execute": name, "arguments": arguments}).encode() + b"\n")
        if not answered:
            return {}
        answer = self._receive(time.monotonic() + _ANSWER_SECONDS)
        if "return" not in answer:
            raise MachineError(f"{name}: {answer.get('error')}")
        found = answer["return"]
        return found if isinstance(found, dict) else {}

    def _send(self, data: bytes) -> None:
        assert self._channel is not None, "the machine was not started"
        self._channel.settimeout(_ANSWER_SECONDS)
        try:
            self._channel.sendall(data)
        except ConnectionError as error:
            raise MachineLostError(self._why("qemu has ended")) from error

    def _receive(self, deadline: float) -> dict[str, Any]:
        """The next answer; empty if a line is not an answer. TimeoutError: nothing came."""
        assert self._channel is not None, "the machine was not started"
        while b"\n" not in self._received:
            self._channel.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                data = self._channel.recv(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                raise MachineLostError(self._why("qemu has ended"))
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        try:
            answer = json.loads(line.lstrip(b"\xff"))
        except ValueError:
            return {}
        return answer if isinstance(answer, dict) else {}

    def _until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if self._qemu is None or self._qemu.poll() is not None:
                raise MachineLostError(self._why(f"{what}: qemu has ended"))
            if time.monotonic() > deadline:
                raise MachineError(self._why(f"{what} within {seconds:.0f} s"))
            time.sleep(_POLL_SECONDS)

    def _why(self, text: str) -> str:
        parts = [text]
        for name in ("qemu.log", "console.log"):
            file = self._directory / name
            parts.append(f"{file}:\n{file.read_text(errors='replace')[-3000:] if file.exists() else '(missing)'}")
        return "\n".join(parts)


def memory_mib(of_host: Path = Path("/proc/meminfo")) -> int:
    """Memory of the machine, in MiB: 6 GiB if the host can spare it, else 2.

    The host only gives what the machine uses, but a test of evictions fills several GiB.
    """
    found = dict(line.split()[:2] for line in of_host.read_text().splitlines())
    return 6144 if int(found["MemAvailable:"]) >= 10 << 20 else 2048


def kvm_works(device: Path = Path("/dev/kvm"), processors: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the host's processor can execute the machine.

    The device alone does not tell: with kvm_pvm, which needs no such processor, Debian's kernel does not start.
    """
    flags = next((line.split() for line in processors.read_text().splitlines() if line.startswith("flags")), [])
    return os.access(device, os.R_OK | os.W_OK) and not {"vmx", "svm"}.isdisjoint(flags)


def missing() -> str:
    """The reason why no machine can be started here; empty if one can."""
    needed = {PROGRAM: "qemu-system-x86", "mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs"}
    packages = [package for program, package in needed.items() if shutil.which(program) is None]
    if packages:
        return f"needs an emulator: apt-get install {' '.join(packages)}"
    return "" if os.geteuid() == 0 else "needs root: run the tests with sudo"
