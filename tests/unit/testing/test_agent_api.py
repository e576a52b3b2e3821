"""The local API of an agent under test."""

import socket
from pathlib import Path

import pytest

from pykubelet.cli.client.local_api import LocalApi
from pykubelet.testing import agent
from pykubelet.testing.agent import AgentProcess


def test_answers_of_an_agent_are_waited_for_longer_on_a_slow_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "PATIENCE", 3.0)
    process = AgentProcess(tmp_path, "", "/none")
    limits: list[float | None] = []

    class RefusingSocket(socket.socket):
        def connect(self, address: object) -> None:
            limits.append(self.gettimeout())
            raise ConnectionRefusedError

    monkeypatch.setattr(socket, "socket", RefusingSocket)
    for api in (LocalApi(tmp_path / "agent.sock"), process.api):
        with pytest.raises(Exception, match="no agent responds"):
            api.get("/api/v1/pods")
    assert limits[0] is not None and limits == [limits[0], 3 * limits[0]]
