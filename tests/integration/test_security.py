"""Identity and privileges of a container's processes, read from the kernel inside the container."""

import json
from pathlib import Path

import pytest

from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.testing.agent import AgentProcess, container_status, is_ready, waiting_reason
from pykubelet.testing.runtime import PrivateRuntime
from tests.manifests import Apply, Json, container, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime]

_CAP_NET_ADMIN, _CAP_CHOWN, _CAP_SYS_ADMIN = 12, 0, 21
_UNCONFINED, _FILTERED = 0, 2


@pytest.fixture(scope="module")
def agent_config() -> dict[str, object]:
    return {"allowedUnsafeSysctls": ["kernel.msg*"]}


def _process(agent: AgentProcess, name: str, container_name: str = "") -> dict[str, str]:
    """Fields of /proc/1/status in a container."""
    lines = agent.exec(name, "cat /proc/1/status", container_name).splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _capabilities(status: dict[str, str]) -> set[int]:
    bits = int(status["CapEff"], 16)
    return {number for number in range(64) if bits >> number & 1}


def _secure(name: str, **fields: object) -> Json:
    return container(name, securityContext=fields)


def test_processes_run_as_the_users_and_groups_of_the_pod(agent: AgentProcess, apply: Apply) -> None:
    context = {
        "runAsUser": 1000,
        "runAsGroup": 3000,
        "supplementalGroups": [4000],
        "fsGroup": 5000,
        "runAsNonRoot": True,
    }
    apply("users", pod("users", container("plain"), _secure("other", runAsUser=65534), securityContext=context))
    agent.wait_running("users")
    plain, other = (_process(agent, "users", name) for name in ("plain", "other"))
    assert plain["Uid"].split() == ["1000"] * 4
    assert plain["Gid"].split() == ["3000"] * 4
    assert {"4000", "5000"} <= set(plain["Groups"].split())
    assert other["Uid"].split() == ["65534"] * 4
    # User 1000 is in group "extra" of the image.
    assert "2000" in plain["Groups"].split()


def test_run_as_non_root_refuses_root(agent: AgentProcess, apply: Apply) -> None:
    apply("nonroot", pod("nonroot", securityContext={"runAsNonRoot": True}))
    seen = agent.wait_pod("nonroot", lambda p: waiting_reason(p) == "CreateContainerConfigError")
    event = agent.wait_event("nonroot", "Failed", "container has runAsNonRoot and image will run as root")
    assert seen.status.phase == "Pending"
    assert event.type == "Warning"


def test_capabilities_are_added_dropped_and_all_with_privilege(agent: AgentProcess, apply: Apply) -> None:
    apply(
        "caps",
        pod(
            "caps",
            container("default"),
            _secure("changed", capabilities={"add": ["NET_ADMIN"], "drop": ["CHOWN"]}),
            _secure("none", capabilities={"drop": ["ALL"]}),
            _secure("privileged", privileged=True),
        ),
    )
    agent.wait_running("caps")
    found = {
        name: _capabilities(_process(agent, "caps", name)) for name in ("default", "changed", "none", "privileged")
    }
    assert _CAP_CHOWN in found["default"]
    assert _CAP_NET_ADMIN not in found["default"]
    assert found["changed"] == found["default"] - {_CAP_CHOWN} | {_CAP_NET_ADMIN}
    assert found["none"] == set()
    assert _CAP_SYS_ADMIN in found["privileged"]
    devices = {name: set(agent.exec("caps", "ls /dev", name).split()) for name in ("privileged", "default")}
    assert devices["privileged"] > devices["default"]


def test_read_only_root_and_no_new_privileges(agent: AgentProcess, apply: Apply) -> None:
    apply(
        "fixed",
        pod(
            "fixed",
            _secure("readonly", readOnlyRootFilesystem=True),
            _secure("limited", allowPrivilegeEscalation=False),
            container("plain"),
        ),
    )
    agent.wait_running("fixed")
    script = "touch /x 2>/dev/null && echo written || echo refused"
    assert agent.exec("fixed", script, "readonly").strip() == "refused"
    assert agent.exec("fixed", script, "plain").strip() == "written"
    assert _process(agent, "fixed", "limited")["NoNewPrivs"] == "1"
    assert _process(agent, "fixed", "plain")["NoNewPrivs"] == "0"


def test_seccomp_profiles_filter_system_calls_of_their_containers(agent: AgentProcess, apply: Apply) -> None:
    profile: Json = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}],
    }
    directory = agent.root / "seccomp" / "profiles"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "no-mkdir.json").write_text(json.dumps(profile))
    profiles = {
        "default": {"type": "RuntimeDefault"},
        "unconfined": {"type": "Unconfined"},
        "local": {"type": "Localhost", "localhostProfile": "profiles/no-mkdir.json"},
    }
    apply(
        "seccomp",
        pod("seccomp", *(_secure(name, seccompProfile=each) for name, each in profiles.items()), container("unset")),
        pod("missing", _secure("main", seccompProfile={"type": "Localhost", "localhostProfile": "profiles/none.json"})),
    )
    agent.wait_running("seccomp")
    modes = {name: int(_process(agent, "seccomp", name)["Seccomp"]) for name in (*profiles, "unset")}
    assert modes == {"default": _FILTERED, "unconfined": _UNCONFINED, "local": _FILTERED, "unset": _UNCONFINED}
    script = "mkdir /tmp/x 2>/dev/null && echo made || echo refused"
    assert agent.exec("seccomp", script, "local").strip() == "refused"
    assert agent.exec("seccomp", script, "default").strip() == "made"
    agent.wait_pod("missing", lambda p: waiting_reason(p) in ("CreateContainerError", "RunContainerError"))


async def _gives_user_namespaces(endpoint: str) -> bool:
    async with CriClient.connect(endpoint) as client:
        handlers = (await client.status()).runtime_handlers
    return any(handler.features.user_namespaces for handler in handlers if not handler.name)


async def test_proc_mount_is_unmasked_only_with_a_user_namespace(
    agent: AgentProcess, daemon: PrivateRuntime, apply: Apply
) -> None:
    apply(
        "proc",
        pod("proc", container("masked"), _secure("open", procMount="Unmasked"), hostUsers=False),
        pod("proc-default"),
    )
    agent.wait_running("proc-default")
    mounts = [line.split() for line in agent.exec("proc-default", "cat /proc/mounts").splitlines()]
    options = {path: flags.split(",") for _, path, _, flags, *_ in mounts}
    assert "ro" in options["/proc/sys"]
    assert any(path.startswith("/proc/") and kind == "tmpfs" for _, path, kind, *_ in mounts), "nothing is masked"
    # An unmasked /proc requires a user namespace, which not every runtime supports (containerd 1.6 does not).
    if await _gives_user_namespaces(daemon.endpoint):
        agent.wait_running("proc")
        assert " /proc/sys " not in agent.exec("proc", "cat /proc/mounts", "open")
        assert " /proc/sys " in agent.exec("proc", "cat /proc/mounts", "masked")
    else:
        agent.wait_event("proc", "FailedCreatePodSandBox", "user namespaces")


async def test_pod_with_user_namespace_has_mapped_ids(
    agent: AgentProcess, daemon: PrivateRuntime, apply: Apply
) -> None:
    if not await _gives_user_namespaces(daemon.endpoint):
        return  # the refusal with a reason is tested above
    shared = {"name": "data", "emptyDir": {}}
    mount = [{"name": "data", "mountPath": "/data"}]
    as_user = container("user", volumeMounts=mount, securityContext={"runAsUser": 1000})
    both = [container("root", volumeMounts=mount), as_user]
    apply(
        "own",
        pod("own", *both, hostUsers=False, volumes=[shared], securityContext={"fsGroup": 5000}),
        pod("own-too", hostUsers=False),
    )
    agent.wait_running("own", "own-too")
    uid = agent.pod("own").metadata.uid
    maps = {name: agent.exec(name, "cat /proc/self/uid_map").split() for name in ("own", "own-too")}
    firsts = {int(first) for _, first, _ in maps.values()}
    assert {(zero, length) for zero, _, length in maps.values()} == {("0", "65536")}
    assert len(firsts) == 2 and all(first >= 65536 and first % 65536 == 0 for first in firsts)
    for name in ("root", "user"):
        agent.exec("own", f"touch /data/{name}", name)
    directory = agent.root / "pods" / uid
    owners = {
        p.name: (p.stat().st_uid, p.stat().st_gid)
        for p in (directory / "volumes/kubernetes.io~empty-dir/data").iterdir()
    }
    assert owners == {"root": (0, 5000), "user": (1000, 5000)}
    assert agent.exec("own", "stat -c %u:%g /etc/hosts /data/user").split() == ["0:0", "1000:5000"]
    agent.kill()
    agent.start()
    agent.end_container("own", "root")
    agent.wait_pod("own", lambda p: container_status(p, "root").restart_count == 1 and is_ready(p))
    assert agent.exec("own", "cat /proc/self/uid_map", "root").split() == maps["own"]
    assert (directory / "userns").exists()


def test_safe_sysctls_are_set_and_others_reject_the_pod(agent: AgentProcess, apply: Apply) -> None:
    safe = [
        {"name": "net.ipv4.ip_local_port_range", "value": "20000 30000"},
        {"name": "kernel.msgmax", "value": "16384"},
    ]
    unsafe = [{"name": "kernel.sem", "value": "1 2 3 4"}]
    apply(
        "sysctls",
        pod("safe", securityContext={"sysctls": safe}),
        pod("unsafe", securityContext={"sysctls": unsafe}),
    )
    agent.wait_running("safe")
    values = agent.exec("safe", "cat /proc/sys/net/ipv4/ip_local_port_range /proc/sys/kernel/msgmax").split()
    assert values == ["20000", "30000", "16384"]
    agent.wait_event("unsafe", "SysctlForbidden", 'forbidden sysctl: "kernel.sem" not allowlisted')
    assert agent.pod("unsafe").status.phase == "Failed"


def test_namespaces_are_shared_as_the_pod_says(agent: AgentProcess, apply: Apply) -> None:
    apply(
        "spaces",
        pod("own", container("a"), container("b")),
        pod("shared", container("a"), container("b"), shareProcessNamespace=True),
        pod("host", container("a"), hostPID=True, hostIPC=True, hostNetwork=True),
    )
    agent.wait_running("own", "shared", "host")

    def spaces(name: str, container_name: str) -> dict[str, str]:
        names = ("pid", "ipc", "net", "uts", "mnt")
        links = agent.exec(name, " ".join(f"readlink /proc/self/ns/{each};" for each in names), container_name)
        return dict(zip(names, links.split(), strict=True))

    host = {name: str(Path(f"/proc/self/ns/{name}").readlink()) for name in ("pid", "ipc", "net")}
    a, b = spaces("own", "a"), spaces("own", "b")
    assert (a["net"], a["ipc"]) == (b["net"], b["ipc"])
    assert a["pid"] != b["pid"]
    assert spaces("shared", "a")["pid"] == spaces("shared", "b")["pid"] != host["pid"]
    assert {name: spaces("host", "a")[name] for name in host} == host
