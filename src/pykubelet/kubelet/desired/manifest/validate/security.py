"""Rules for security contexts and sysctls."""

from typing import Final

from pykubelet.kubelet.desired.manifest.validate import names
from pykubelet.kubelet.desired.manifest.validate.findings import Findings
from pykubelet.models import core_v1 as core

_MAX_ID: Final = (1 << 31) - 1
_PROFILE_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_IPC_PREFIXES: Final = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")


def check_pod_security(findings: Findings, spec: core.PodSpec) -> None:
    """Check the pod's security context, and its combination with host namespaces."""
    context, path = spec.security_context or core.PodSecurityContext(), "spec.securityContext"
    _check_ids(findings, context, path)
    findings.in_range(f"{path}.fsGroup", context.fs_group, 0, _MAX_ID)
    for index, group in enumerate(context.supplemental_groups):
        findings.in_range(f"{path}.supplementalGroups[{index}]", group, 0, _MAX_ID)
    findings.one_of(f"{path}.fsGroupChangePolicy", context.fs_group_change_policy, ("OnRootMismatch", "Always"))
    findings.one_of(f"{path}.supplementalGroupsPolicy", context.supplemental_groups_policy, ("Merge", "Strict"))
    findings.one_of(f"{path}.seLinuxChangePolicy", context.se_linux_change_policy, ("Recursive", "MountOption"))
    _check_seccomp(findings, context.seccomp_profile, f"{path}.seccompProfile")
    _check_apparmor(findings, context.app_armor_profile, f"{path}.appArmorProfile")
    _check_sysctls(findings, spec, context)
    if spec.share_process_namespace and spec.host_pid:
        findings.add("spec.shareProcessNamespace", "cannot be combined with hostPID", "take one away")
    if spec.host_users is False:
        for name, given in (("hostPID", spec.host_pid), ("hostIPC", spec.host_ipc), ("hostNetwork", spec.host_network)):
            if given:
                findings.add(f"spec.{name}", "cannot be combined with hostUsers: false", "take one away")


def check_container_security(
    findings: Findings, context: core.SecurityContext | None, path: str, *, host_users: bool
) -> None:
    """Check a container's security context."""
    if context is None:
        return
    _check_ids(findings, context, path)
    findings.one_of(f"{path}.procMount", context.proc_mount, ("Default", "Unmasked"))
    if context.proc_mount == "Unmasked" and host_users:
        findings.add(
            f"{path}.procMount", "Unmasked needs a user namespace of the pod's own", "set spec.hostUsers: false"
        )
    _check_seccomp(findings, context.seccomp_profile, f"{path}.seccompProfile")
    _check_apparmor(findings, context.app_armor_profile, f"{path}.appArmorProfile")
    if context.allow_privilege_escalation is False:
        added = context.capabilities.add if context.capabilities else ()
        if context.privileged:
            findings.add(
                f"{path}.privileged", "cannot be combined with allowPrivilegeEscalation: false", "take one away"
            )
        if "CAP_SYS_ADMIN" in added or "SYS_ADMIN" in added:
            findings.add(
                f"{path}.capabilities.add",
                "SYS_ADMIN cannot be combined with allowPrivilegeEscalation: false",
                "take one away",
            )


def _check_ids(findings: Findings, context: core.PodSecurityContext | core.SecurityContext, path: str) -> None:
    findings.in_range(f"{path}.runAsUser", context.run_as_user, 0, _MAX_ID)
    findings.in_range(f"{path}.runAsGroup", context.run_as_group, 0, _MAX_ID)
    if context.run_as_non_root and context.run_as_user == 0:
        findings.add(f"{path}.runAsUser", "is 0, but runAsNonRoot is true", "name another user")


def _check_seccomp(findings: Findings, profile: core.SeccompProfile | None, path: str) -> None:
    if profile is None:
        return
    if findings.required(f"{path}.type", profile.type):
        findings.one_of(f"{path}.type", profile.type, _PROFILE_TYPES)
    if profile.type == "Localhost":
        # An empty name once meant "no confinement" (CVE-2023-2431).
        if findings.required(f"{path}.localhostProfile", profile.localhost_profile):
            findings.complaint(f"{path}.localhostProfile", names.relative_path(profile.localhost_profile or ""))
    elif profile.localhost_profile is not None:
        findings.add(f"{path}.localhostProfile", "is only for type: Localhost", "take it away, or change the type")


def _check_apparmor(findings: Findings, profile: core.AppArmorProfile | None, path: str) -> None:
    if profile is None:
        return
    if findings.required(f"{path}.type", profile.type):
        findings.one_of(f"{path}.type", profile.type, _PROFILE_TYPES)
    name = profile.localhost_profile
    if profile.type == "Localhost":
        if findings.required(f"{path}.localhostProfile", name) and name is not None and name.strip() != name:
            findings.add(f"{path}.localhostProfile", "has blanks at its ends", "take them away")
    elif name is not None:
        findings.add(f"{path}.localhostProfile", "is only for type: Localhost", "take it away, or change the type")


def _check_sysctls(findings: Findings, spec: core.PodSpec, context: core.PodSecurityContext) -> None:
    seen: set[str] = set()
    for index, sysctl in enumerate(context.sysctls):
        where = f"spec.securityContext.sysctls[{index}].name"
        if not findings.required(where, sysctl.name):
            continue
        findings.complaint(where, names.sysctl_name(sysctl.name))
        if sysctl.name in seen:
            findings.add(where, f"{sysctl.name} is given twice", "take one away")
        seen.add(sysctl.name)
        name = sysctl.name.replace("/", ".")
        if spec.host_network and name.startswith("net."):
            findings.add(where, "would change the host's network: hostNetwork is true", "take one away")
        if spec.host_ipc and name.startswith(_IPC_PREFIXES):
            findings.add(where, "would change the host's IPC: hostIPC is true", "take one away")
        # Values reach the kernel as they are; a newline or '+' has been an escape (CVE-2022-0811).
        if any(char in sysctl.value for char in "+=\n\r"):
            value = f"spec.securityContext.sysctls[{index}].value"
            findings.add(value, "contains '+', '=' or a line break", "give the bare value")
