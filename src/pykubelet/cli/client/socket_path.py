"""The path of the agent's socket, unless another ``--run-dir`` was given."""

from typing import Final

DEFAULT_SOCKET_PATH: Final = "/run/pykubelet/agent.sock"
