"""Rules for probes and lifecycle hooks."""

from typing import Final

from pykubelet.kubelet.desired.manifest.validate import names
from pykubelet.kubelet.desired.manifest.validate.findings import Findings
from pykubelet.models import core_v1 as core

_PROBE_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "sleep")
_SIGNALS: Final = frozenset({
    "SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGIO",
    "SIGIOT", "SIGKILL", "SIGPIPE", "SIGPOLL", "SIGPROF", "SIGPWR", "SIGQUIT", "SIGSEGV", "SIGSTKFLT", "SIGSTOP",
    "SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2", "SIGVTALRM",
    "SIGWINCH", "SIGXCPU", "SIGXFSZ", "SIGRTMIN", "SIGRTMAX",
    *(f"SIGRTMIN+{number}" for number in range(1, 16)),
    *(f"SIGRTMAX-{number}" for number in range(1, 15)),
})  # fmt: skip


def check_probes(findings: Findings, container: core.Container, path: str) -> None:
    """Check the three probes of a container."""
    probes = (
        ("livenessProbe", container.liveness_probe),
        ("readinessProbe", container.readiness_probe),
        ("startupProbe", container.startup_probe),
    )
    port_names = frozenset(port.name for port in container.ports if port.name)
    for field, probe in probes:
        if probe is None:
            continue
        where = f"{path}.{field}"
        _check_probe(findings, probe, where, port_names)
        if field == "readinessProbe":
            if probe.termination_grace_period_seconds is not None:
                message = "is not possible: a failing readiness probe stops nothing"
                findings.add(f"{where}.terminationGracePeriodSeconds", message, "take it away")
        elif probe.success_threshold != 1:
            findings.add(f"{where}.successThreshold", f"is {probe.success_threshold}, but must be 1", "take it away")


def _check_probe(findings: Findings, probe: core.Probe, path: str, port_names: frozenset[str]) -> None:
    values = (probe.exec, probe.http_get, probe.tcp_socket, probe.grpc)
    given = [field for field, value in zip(_PROBE_HANDLERS, values, strict=True) if value is not None]
    if findings.exactly_one(path, given, _PROBE_HANDLERS, "handler"):
        _check_exec(findings, probe.exec, f"{path}.exec")
        _check_http(findings, probe.http_get, f"{path}.httpGet", port_names)
        if probe.tcp_socket is not None:
            _check_port(findings, probe.tcp_socket.port, f"{path}.tcpSocket.port", port_names)
        if probe.grpc is not None:
            findings.in_range(f"{path}.grpc.port", probe.grpc.port, 1, 65535)
    findings.in_range(f"{path}.initialDelaySeconds", probe.initial_delay_seconds, 0)
    findings.in_range(f"{path}.timeoutSeconds", probe.timeout_seconds, 1)
    findings.in_range(f"{path}.periodSeconds", probe.period_seconds, 1)
    findings.in_range(f"{path}.successThreshold", probe.success_threshold, 1)
    findings.in_range(f"{path}.failureThreshold", probe.failure_threshold, 1)
    findings.in_range(f"{path}.terminationGracePeriodSeconds", probe.termination_grace_period_seconds, 1)


def check_lifecycle(findings: Findings, container: core.Container, path: str, spec: core.PodSpec) -> None:
    """Check the hooks and the stop signal of a container."""
    lifecycle = container.lifecycle
    if lifecycle is None:
        return
    port_names = frozenset(port.name for port in container.ports if port.name)
    for field, hook in (("postStart", lifecycle.post_start), ("preStop", lifecycle.pre_stop)):
        if hook is None:
            continue
        where = f"{path}.lifecycle.{field}"
        values = (hook.exec, hook.http_get, hook.tcp_socket, hook.sleep)
        given = [name for name, value in zip(_HOOK_HANDLERS, values, strict=True) if value is not None]
        if not findings.exactly_one(where, given, _HOOK_HANDLERS, "handler"):
            continue
        _check_exec(findings, hook.exec, f"{where}.exec")
        _check_http(findings, hook.http_get, f"{where}.httpGet", port_names)
        if hook.tcp_socket is not None:
            _check_port(findings, hook.tcp_socket.port, f"{where}.tcpSocket.port", port_names)
        if hook.sleep is not None:
            grace = spec.termination_grace_period_seconds
            findings.in_range(f"{where}.sleep.seconds", hook.sleep.seconds, 0, grace if grace and grace > 0 else None)
    if lifecycle.stop_signal:
        where = f"{path}.lifecycle.stopSignal"
        if spec.os is None:
            findings.add(where, "needs spec.os.name", "set spec.os.name: linux")
        elif lifecycle.stop_signal not in _SIGNALS:
            findings.add(where, f"{lifecycle.stop_signal!r} is no signal", "write it as in SIGTERM")


def _check_exec(findings: Findings, action: core.ExecAction | None, path: str) -> None:
    if action is not None:
        findings.required(f"{path}.command", action.command, "give the program and its arguments as a list")


def _check_http(findings: Findings, action: core.HTTPGetAction | None, path: str, port_names: frozenset[str]) -> None:
    if action is None:
        return
    _check_port(findings, action.port, f"{path}.port", port_names)
    findings.one_of(f"{path}.scheme", action.scheme, ("HTTP", "HTTPS"))
    for index, header in enumerate(action.http_headers):
        findings.complaint(f"{path}.httpHeaders[{index}].name", names.header_name(header.name))
        if "\n" in header.value or "\r" in header.value:
            findings.add(f"{path}.httpHeaders[{index}].value", "contains a line break", "take it away")


def _check_port(findings: Findings, port: int | str, path: str, port_names: frozenset[str]) -> None:
    if isinstance(port, int):
        findings.in_range(path, port, 1, 65535)
    elif complaint := names.port_name(port):
        findings.complaint(path, complaint)
    elif port not in port_names:
        findings.add(path, f"the container has no port named {port!r}", "name one of its ports, or give the number")
