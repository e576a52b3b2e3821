"""Traces: a real collector process receives the spans of the agent, of the runtime server and of what it runs."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.testing.agent import AgentProcess, environment, wait_for
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.free_ports import free_port
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.otlp_receiver import ReceivedSpan, received
from tests.manifests import BUSYBOX, container, pod, sh

# The exporter's library measures its time limit by the wall clock.
pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.only_on("criserver"), pytest.mark.steady_clock]

_RPC = "runtime.v1.RuntimeService"
_PROGRAM = """#!/bin/sh
# Notes which trace it is a part of.
echo "$CNI_COMMAND $* $TRACEPARENT" >> {notes}
exec {program} "$@"
"""


@pytest.fixture(scope="module")
def collector(isolation: Isolation) -> Iterator[tuple[str, Path]]:
    """A collector's endpoint, and the file of its spans."""
    port, file = free_port(), isolation.home / "spans.jsonl"
    argv = [sys.executable, "-m", "pykubelet.testing.otlp_receiver", str(port), str(file)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment()) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield f"127.0.0.1:{port}", file
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def traced(isolation: Isolation, collector: tuple[str, Path]) -> Iterator[AgentProcess]:
    """An agent and a runtime server that send their spans to the collector."""
    endpoint, home = collector[0], isolation.home / "t"
    for name, program in (("bridge", "/usr/lib/cni/bridge"), ("runc", shutil.which("runc"))):
        path = home / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_PROGRAM.format(notes=home / name, program=program))
        path.chmod(0o755)
    server = PrivateCriServer(
        home,
        f"{isolation.bridge}t",
        isolation.further_subnet("t"),
        cni={"bin_dirs": [str(home / "bin"), "/usr/lib/cni"]},
        handlers={"runc": str(home / "bin" / "runc")},
        further={"tracing": {"endpoint": endpoint}},
    )
    config: dict[str, object] = {"tracing": {"endpoint": endpoint, "samplingRatePerMillion": 1_000_000}}
    agent = AgentProcess(isolation.home / "traced", server.endpoint, f"{isolation.cgroup_root}-t", config=config)
    try:
        server.write_configuration()
        server.load(ImageSpec(BUSYBOX))
        server.start()
        agent.start()
        yield agent
        agent.remove_all_pods()
        assert agent.stop() == 0, agent.log_tail()
    finally:
        agent.destroy()
        server.destroy()


def _trace_of(pod: str, spans: list[ReceivedSpan]) -> dict[str, list[ReceivedSpan]]:
    """The spans of the trace of a pod's start, by name."""
    roots = [span for span in spans if span.name == "startPod" and span.pod == pod]
    found: dict[str, list[ReceivedSpan]] = {}
    for span in spans:
        if roots and span.trace == roots[0].trace:
            found.setdefault(span.name, []).append(span)
    return found


def test_start_of_a_pod_is_one_trace_through_both_daemons(traced: AgentProcess, collector: tuple[str, Path]) -> None:
    traced.write("one.json", pod("one", container("main"), initContainers=[container("first", sh("exit 0"))]))
    names = ("startPod", "syncPod", f"{_RPC}/RunPodSandbox", f"{_RPC}/StartContainer", "volumes", "runc start")

    def arrived() -> bool:
        spans = _trace_of("default/one-testnode", received(collector[1]))
        # The spans of both containers, which the daemons send independently of each other; and a span is sent when it
        # has ended, which may be seconds before the one that it is a part of.
        known = {span.id for each in spans.values() for span in each} | {""}
        parents = {span.parent for each in spans.values() for span in each}
        return set(names) <= spans.keys() and len(spans.get("conmon create", ())) == 2 and parents <= known

    wait_for(arrived, 40, traced.log_tail)
    trace = _trace_of("default/one-testnode", received(collector[1]))
    by_id = {span.id: span for spans in trace.values() for span in spans}
    root = trace["startPod"][0]
    assert (root.parent, root.service, root.error) == ("", "kubelet", "")
    assert {span.parent for span in trace["syncPod"]} == {root.id}, "all syncs until it is ready belong to its start"
    assert len(trace["syncPod"]) > 1, "the container starts after the init container, in another sync"
    asked, served = sorted(trace[f"{_RPC}/RunPodSandbox"], key=lambda span: span.service)
    assert (asked.service, served.service) == ("kubelet", "pykubelet-criserver")
    assert by_id[asked.parent].name == "syncPod"
    assert served.parent == asked.id, "the server continues the agent's trace"
    plugins = [span for name in trace if name.startswith("CNI ADD ") for span in trace[name]]
    assert plugins
    assert {span.parent for span in plugins} == {served.id}
    creations = {span.id for span in trace[f"{_RPC}/CreateContainer"] if span.service == "pykubelet-criserver"}
    assert {span.parent for span in trace["conmon create"]} <= creations
    starts = {span.id for span in trace[f"{_RPC}/StartContainer"] if span.service == "pykubelet-criserver"}
    assert {span.parent for span in trace["runc start"]} <= starts
    for span in by_id.values():
        assert root.begun <= span.begun <= span.ended


def test_plugins_and_runtime_get_the_trace_in_their_environment(
    traced: AgentProcess, collector: tuple[str, Path], isolation: Isolation
) -> None:
    traced.write("told.json", pod("told"))

    def spans_of(name: str) -> list[ReceivedSpan]:
        return _trace_of("default/told-testnode", received(collector[1])).get(name, [])

    for name, program, command in (("CNI ADD bridge", "bridge", "ADD "), ("conmon create", "runc", " create ")):
        wait_for(lambda: bool(spans_of(name)), 40, traced.log_tail)  # noqa: B023
        (span,) = spans_of(name)
        notes = (isolation.home / "t" / program).read_text().splitlines()
        reported = [line.split()[-1].split("-") for line in notes if command in line and span.trace in line]
        assert [parent[1:3] for parent in reported] == [[span.trace, span.id]], f"{name}: {notes}"


def test_trace_does_not_reach_containers_and_has_no_probes(traced: AgentProcess, collector: tuple[str, Path]) -> None:
    clean = "! tr '\\0' '\\n' < /proc/1/environ | grep TRACEPARENT && ! env | grep TRACEPARENT"
    probe = {"exec": {"command": sh(clean)}, "periodSeconds": 1}
    main = container("main", sh(f"{clean} && sleep 1000"), readinessProbe=probe)
    traced.write("probed.json", pod("probed", main))
    # The span ends when the pod is ready: after the first probe, which was sent before it.
    wait_for(lambda: "startPod" in _trace_of("default/probed-testnode", received(collector[1])), 40, traced.log_tail)
    assert f"{_RPC}/ExecSync" not in _trace_of("default/probed-testnode", received(collector[1]))


def test_failed_call_marks_its_span(traced: AgentProcess, collector: tuple[str, Path]) -> None:
    traced.write("bad.json", pod("bad", container("main", ["/no/such/program"]), restartPolicy="Never"))

    def failed() -> list[ReceivedSpan]:
        spans = received(collector[1])
        return [span for span in spans if span.name == f"{_RPC}/StartContainer" and "no such file" in span.error]

    wait_for(lambda: {span.service for span in failed()} == {"kubelet", "pykubelet-criserver"}, 60, traced.log_tail)
    calls = {span.parent for span in failed() if span.service == "kubelet"}
    wait_for(
        lambda: calls <= {span.id for span in received(collector[1]) if span.name == "syncPod"}, 60, traced.log_tail
    )
    assert all("no such file" in span.error for span in received(collector[1]) if span.id in calls)
