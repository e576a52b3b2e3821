"""``top -w`` on a pseudo-terminal, and without one, against a running agent."""

import os
import signal
import subprocess

import pytest

from pykubelet.testing.agent import AgentProcess, cli_command, container_status, environment
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.terminal import Terminal
from tests.manifests import Apply, container, pod, serving, sh

pytestmark = [pytest.mark.root, pytest.mark.runtime]

OTHER_SCREEN, FORMER_SCREEN = "\x1b[?1049h", "\x1b[?1049l"


def test_live_view_shows_logs_restarts_and_an_agent_that_is_away(agent: AgentProcess, apply: Apply) -> None:
    apply("web", pod("web", container(command=serving("echo hello of web"))))
    apply("crash", pod("crash", container(command=sh("exit 3"))))
    agent.wait_running("web")
    agent.wait_event("crash", "BackOff")
    command = cli_command(agent.socket, "top", "-w", "--interval", "1")
    with Terminal(command, {**environment(), "TERM": "xterm"}, size=(24, 80)) as terminal:
        terminal.expect(OTHER_SCREEN)
        wanted = ("testnode", "NAME", "crash", "CrashLoopBackOff", "web", "Running", "BackOff ", "Ki")
        terminal.until(lambda shown: all(text in shown for text in wanted))
        terminal.type("jl")
        terminal.expect("log of web/main")
        terminal.expect("hello of web")
        terminal.type("q")
        terminal.expect("LAST EVENT")
        terminal.resize(12, 40)
        terminal.expect(" MEM")
        for answer, result in (("n", "select"), ("y", "restart of pod web")):
            terminal.type("r")
            terminal.expect("restart pod web?")
            terminal.type(answer)
            terminal.expect(result)
        agent.wait_pod("web", lambda found: container_status(found).restart_count == 1, 60)
        assert agent.stop() == 0
        terminal.expect("no agent")
        agent.start()
        terminal.expect("the agent is back")
        terminal.type("q")
        assert terminal.end() == 0
        assert terminal.shown.rstrip().endswith(FORMER_SCREEN), terminal.shown[-500:]


def test_live_view_without_a_terminal_prints_lines(agent: AgentProcess, apply: Apply) -> None:
    apply("web", pod("web", container()))
    agent.wait_running("web")
    command = cli_command(agent.socket, "top", "-w", "--interval", "1")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment()}) as process:
        try:
            lines = process.stdout
            assert lines is not None
            assert next(lines).split()[:5] == ["TIME", "NAMESPACE", "NAME", "READY", "STATUS"]
            shown = next(line for line in lines if " web " in line).split()
            assert shown[1:6] == ["default", "web", "1/1", "Running", "0"]
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(20 * PATIENCE) == 130
