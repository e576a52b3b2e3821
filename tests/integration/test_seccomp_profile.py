"""The default seccomp profile as programs in a container meet it, compared with runc's rule for calls it does not list.

C libraries and language runtimes try new calls first and fall back at ENOSYS, but not at EPERM. A profile is a list of
what is allowed, so runc answers calls with numbers beyond all that the profile names with ENOSYS, and the rest with
the error of the profile (runc 1.0-rc93, ``libcontainer/seccomp/patchbpf``).
"""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri import Script
from pykubelet.testing.runtime import PrivateRuntime
from tests.contract.cri.rig import Program, Runtime
from tests.integration.syscall_probe import ENOSYS, EPERM, MACHINE, PERMITTED, Names, program, socket_program

pytestmark = [
    pytest.mark.root,
    pytest.mark.runtime,
    pytest.mark.only_on("criserver"),
    pytest.mark.skipif(os.uname().machine != MACHINE, reason=f"the program that makes the calls is for {MACHINE}"),
    pytest.mark.skipif(
        "runc" not in os.environ.get("PYKUBELET_TEST_OCI", "runc"), reason="the rule for unlisted calls is runc's"
    ),
]
_NUMBERS = range(601)
_ALLOW = "SCMP_ACT_ALLOW"
_NOT_MADE = ("pause", "sync", "vfork")
"""Allowed calls that wait, write all disks of the node, or share the memory of the parent."""
_UNFILTERED = {335, 336}
"""uretprobe and uprobe: only code that the kernel has written makes them, and newer kernels filter them no more."""

_NEW = range(457, 467)
"""Of Linux 6.8 to 6.13: statmount to removexattrat, in containerd's default profile."""
_UNCONDITIONAL = (154, 158, 101, 310, 311)
"""modify_ldt, arch_prctl; ptrace and process_vm_*, for all since the kernel filters the calls of tracers."""


async def _run(
    runtime: Runtime, daemon: PrivateRuntime, probe: Path, kind: "pb.SecurityProfile.ProfileType.ValueType", name: str
) -> tuple[list[str], dict[str, Any]]:
    """Run the program in a container; returns its letters, and the profile in the container's specification."""
    config = runtime.container_config(Program(name, ("/probe",), Script()))
    config.linux.security_context.seccomp.profile_type = kind
    config.mounts.add(host_path=str(probe), container_path="/probe", readonly=True)
    sandbox = await runtime.sandbox()
    container = await runtime.client.create_container(sandbox, config, runtime.pod_config())
    specification = next((daemon.home / "run").rglob(f"{container}/config.json"))
    profile = json.loads(specification.read_text())["linux"].get("seccomp") or {}
    await runtime.client.start_container(container)
    status = await runtime.ended(container)
    assert status.exit_code == 0
    lines = Path(status.log_path).read_text().splitlines()
    return lines[0].split(" ", 3)[3].split(), profile


async def test_default_profile_refuses_calls_by_the_rule_of_runc(
    runtime: Runtime, daemon: PrivateRuntime, tmp_path: Path
) -> None:
    names = Names()
    # The program makes only calls that the profile refuses or allows without conditions.
    probe = tmp_path / "probe"
    probe.write_bytes(program([]))
    probe.chmod(0o755)
    _, profile = await _run(runtime, daemon, probe, pb.SecurityProfile.RuntimeDefault, "empty")
    rules: list[dict[str, Any]] = profile["syscalls"]
    assert (profile["defaultAction"], profile["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", 1)

    def numbers(conditional: bool) -> set[int]:
        found = (rule for rule in rules if rule["action"] == _ALLOW and ("args" in rule) is conditional)
        return {names.number(name) for rule in found for name in rule["names"]}

    last = max(names.number(name) for rule in rules for name in rule["names"])
    unconditional = numbers(False)
    skipped = (numbers(True) - unconditional) | _UNFILTERED | {names.number(name) for name in _NOT_MADE}
    made = [number for number in _NUMBERS if number not in skipped]
    refused = {number: ENOSYS if number > last else EPERM for number in made if number not in unconditional}
    refused[names.number("clone3")] = ENOSYS  # by a rule of the profile
    assert {names.number("mount"), names.number("bpf")} <= refused.keys() and last + 1 in refused
    assert list(refused.values()).count(EPERM) > 50

    probe.write_bytes(program(made))
    letters, _ = await _run(runtime, daemon, probe, pb.SecurityProfile.RuntimeDefault, "filtered")
    found = dict(zip(made, letters, strict=True))
    assert {number: found[number] for number in refused} == refused

    allowed = [number for number in made if number not in refused]
    probe.write_bytes(program(allowed))
    letters, profile = await _run(runtime, daemon, probe, pb.SecurityProfile.Unconfined, "free")
    assert not profile
    assert letters.count(PERMITTED) > 200  # of the others, the kernel refuses these arguments
    assert {number: found[number] for number in allowed} == dict(zip(allowed, letters, strict=True))


async def test_calls_of_new_kernels_are_not_refused(runtime: Runtime, daemon: PrivateRuntime, tmp_path: Path) -> None:
    """The filter may not know them (ENOSYS), but programs must not be told that they lack a permission."""
    probe, made = tmp_path / "probe", [*_NEW, *_UNCONDITIONAL]
    probe.write_bytes(program(made))
    probe.chmod(0o755)
    free, _ = await _run(runtime, daemon, probe, pb.SecurityProfile.Unconfined, "free")
    found, _ = await _run(runtime, daemon, probe, pb.SecurityProfile.RuntimeDefault, "filtered")
    refused = [number for number, one, other in zip(made, found, free, strict=True) if EPERM == one != other]
    assert refused == []


@pytest.mark.parametrize(("family", "refused"), [(1, False), (16, False), (38, True), (39, False), (40, True)])
async def test_sockets_of_the_kernels_ciphers_and_the_hypervisor_are_refused(
    runtime: Runtime, tmp_path: Path, family: int, refused: bool
) -> None:
    """AF_ALG and AF_VSOCK, as containerd; not the families around them."""
    probe = tmp_path / "probe"
    probe.write_bytes(socket_program(family))
    probe.chmod(0o755)
    config = runtime.container_config(Program("socket", ("/probe",), Script()))
    config.linux.security_context.seccomp.profile_type = pb.SecurityProfile.RuntimeDefault
    config.mounts.add(host_path=str(probe), container_path="/probe", readonly=True)
    container = await runtime.client.create_container(await runtime.sandbox(), config, runtime.pod_config())
    await runtime.client.start_container(container)
    assert ((await runtime.ended(container)).exit_code == errno.EPERM) is refused
