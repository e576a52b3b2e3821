"""Where the agent's socket is, unless another ``--run-dir`` was given."""

from typing import Final

DEFAULT_SOCKET_PATH: Final = "/run/pykubelet/agent.sock"
