"""The systemd units of the agent and the runtime server, as text (systemd.service(5)). Pure."""

from collections.abc import Sequence

AGENT_UNIT = "pykubelet.service"
SERVER_UNIT = "pykubelet-criserver.service"
WATCHDOG_SECONDS = 120
"""Time after which systemd kills a daemon that hangs: longer than a machine under heavy load delays it."""
START_SECONDS = 300
"""Time that a start may take. With systemd's default of 90 s a slow machine would start a daemon, kill it and start it
again for ever."""


def server_unit(command: Sequence[str]) -> str:
    """Return the unit of the runtime server, which ``command`` starts."""
    return f"""\
[Unit]
Description=Container runtime server of pykubelet (CRI)
After=network-online.target local-fs.target
Wants=network-online.target
# It is always worth another attempt: containers run without the server, but are not restarted.
StartLimitIntervalSec=0

[Service]
# The server tells systemd when its socket serves (READY=1).
Type=notify
# A server that hangs is killed and started again; the log then has the stacks of its threads. Containers keep running.
WatchdogSec={WATCHDOG_SECONDS}
ExecStart={command_line(command)}
Restart=always
RestartSec=1
# Only the server itself is stopped. The monitors of the containers (conmon) are in this unit's cgroup as well; with the
# default, control-group, a restart of the server would kill them, and all pods with them.
KillMode=process
TimeoutStopSec=30
# `systemctl reload`: the server reads its configuration, registries and networks again.
ExecReload=/bin/kill -HUP $MAINPID
# A start may be slow: on a slow or busy machine, or just after a boot.
TimeoutStartSec={START_SECONDS}
# The server creates cgroups of its own; systemd must leave them alone.
Delegate=yes
# Containers inherit these limits.
LimitNOFILE=1048576
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
"""


def agent_unit(command: Sequence[str]) -> str:
    """Return the unit of the agent, which ``command`` starts."""
    return f"""\
[Unit]
Description=Node agent of pykubelet
# Wants, not Requires: the agent waits for a server that is being restarted.
After=network-online.target local-fs.target {SERVER_UNIT}
Wants=network-online.target {SERVER_UNIT}
StartLimitIntervalSec=0

[Service]
# The agent tells systemd when its local API serves (READY=1).
Type=notify
# An agent that hangs is killed and started again; the log then has the stacks of its threads. Pods keep running.
WatchdogSec={WATCHDOG_SECONDS}
ExecStart={command_line(command)}
Restart=always
RestartSec=1
# Only the agent itself is stopped: pods keep running, and so do programs that serve volumes of pods (FUSE), which
# mount helpers have left in this unit's cgroup.
KillMode=process
TimeoutStopSec=30
# `systemctl reload`: the agent reads its configuration again, and tells systemd when it has (RELOADING=1, READY=1).
ExecReload=/bin/kill -HUP $MAINPID
# A start waits for the runtime server, which may be recovering many pods.
TimeoutStartSec={START_SECONDS}
LimitNOFILE=1048576
TasksMax=infinity
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
"""


def command_line(words: Sequence[str]) -> str:
    """Return the words in systemd's syntax: quoted, without specifiers and variables."""
    return " ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{text}"' if not text or set(text) & set(" \t\"';") else text
