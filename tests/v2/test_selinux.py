"""SELinux on a kernel that enforces it: labels of processes and files, and what they forbid.

These tests have a machine of their own: `make test-v2 V2=selinux`.
"""

import re
from typing import Any

import pytest

from tests.v2.guest import wait_refused, wait_running
from tests.v2.node import Node
from tools.v2.project import BUSYBOX

pytestmark = [pytest.mark.selinux, pytest.mark.root, pytest.mark.timeout(3600)]
OWN = re.compile(r"s0:c(\d+),c(\d+)")
"""The level that the server chooses for a pod."""
ASKED = {"user": "unconfined_u", "role": "unconfined_r", "type": "spc_t", "level": "s0:c7,c8"}
FILES = "system_u:object_r:container_file_t"
OTHERS = "/srv/others"
"""A directory of the node that no pod has got relabelled."""


def tries(**commands: str) -> str:
    """A shell script that says of each command whether it could, and then waits."""
    said = [
        f"if {{ {each}; }} >/dev/null 2>&1; then echo {name} yes; else echo {name} no; fi"
        for name, each in commands.items()
    ]
    return "\n".join((*said, "echo done", "exec sleep 1000000"))


def container(name: str, script: str, *mounts: str, **context: Any) -> dict[str, Any]:
    """A container with these volumes, mounted on directories of their names."""
    return {
        "name": name,
        "image": BUSYBOX,
        "command": ["/bin/sh", "-c", script],
        "securityContext": context,
        "volumeMounts": [{"name": each, "mountPath": f"/{each}"} for each in mounts],
    }


def host_path(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "hostPath": {"path": path}}


def said(node: Node, pod: str, name: str) -> dict[str, bool]:
    """Results of the actions that a container tried, by its log; True: it could do one."""
    lines = node.shell(
        f"for i in $(seq 300); do grep -qs 'F done' /var/log/pods/*_{pod}-*/{name}/0.log && break; sleep 1; done; "
        f"cat /var/log/pods/*_{pod}-*/{name}/0.log"
    ).out.splitlines()
    words = [line.split()[3:] for line in lines]
    return {each[0]: each[1] == "yes" for each in words if len(each) == 2}


def label(node: Node, pid: int) -> str:
    return node.shell(f"cat /proc/{pid}/attr/current").out.strip("\0\n ")


def denials(node: Node, pattern: str) -> str:
    """The kernel's messages about what it denied."""
    return node.shell(f"dmesg | grep 'avc:  denied' | grep '{pattern}' || true").out


def volume(uid: str) -> str:
    """The directory of a pod's volume ``data``."""
    return f"/var/lib/pykubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/data"


@pytest.fixture(scope="module")
def pods(node: Node) -> Any:
    """Pods that run, and by container, as ``pod/name``, its first process."""
    node.shell(f"mkdir -p {OTHERS} && echo x > {OTHERS}/file && chcon -R -t var_t {OTHERS}")
    everything = tries(
        root="echo x > /written && cat /written && ls /bin",
        volume="echo secret > /data/secret && cat /data/secret",
        memory="echo x > /dev/shm/file",
        files="cat /etc/hosts /etc/resolv.conf && echo x > /dev/termination-log",
        downward="cat /info/name",
        others="cat /others/file",
    )
    volumes = [
        {"name": "data", "emptyDir": {}},
        {"name": "info", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        host_path("others", OTHERS),
    ]
    wait = "until [ -s /data/secret ]; do sleep 1; done; " + tries(volume="cat /data/secret")
    node.add(
        "owner",
        "",
        volumes=volumes,
        containers=[container("main", everything, "data", "info", "others"), container("beside", wait, "data")],
    )
    node.add(
        "asks",
        "",
        volumes=[{"name": "data", "emptyDir": {}}],
        securityContext={"seLinuxOptions": {"level": "s0"}},
        containers=[
            container("all", tries(), seLinuxOptions=ASKED),
            container("pod", tries(volume="echo x > /data/file"), "data"),
        ],
    )
    signal = tries(signal="kill -0 1", node="cat /proc/1/cmdline")
    node.add(
        "host",
        "",
        hostPID=True,
        containers=[
            container("confined", signal),
            container("spc", signal, seLinuxOptions={"type": "spc_t"}),
            container("privileged", signal, privileged=True),
        ],
    )
    node.add(
        "shared",
        "",
        shareProcessNamespace=True,
        containers=[container("main", tries(signal="kill -0 1", read="cat /proc/1/cmdline"))],
    )
    found = node.ask(wait_running, "owner", "asks", "host", "shared")
    assert set(found) == {"owner", "asks", "host", "shared"}, node.logs()
    return found


@pytest.fixture(scope="module")
def levels(node: Node, pods: dict[str, Any]) -> dict[str, str]:
    """The level of the first container of each pod."""
    first = {name: next(iter(pod["containers"].values()))["pid"] for name, pod in pods.items()}
    return {name: label(node, pid).split(":", 3)[3] for name, pid in first.items()}


@pytest.fixture(scope="module")
def data(pods: dict[str, Any]) -> str:
    """The directory of the volume of the pod ``owner``."""
    return volume(pods["owner"]["uid"])


@pytest.fixture(scope="module")
def thieves(node: Node, levels: dict[str, str], data: str) -> Any:
    """A pod with containers that read and change the volume of another one."""
    reads = tries(
        read="cat /data/secret",
        write="echo changed >> /data/secret",
        list="ls /data",
        move="mv /data/secret /data/x && mv /data/x /data/secret",
    )
    same = {"seLinuxOptions": {"level": levels["owner"]}}
    containers = [
        container("other", reads, "data"),
        container("same", reads, "data", **same),
        container("privileged", reads, "data", privileged=True),
    ]
    node.add("thief", "", volumes=[host_path("data", data)], containers=containers)
    found = node.ask(wait_running, "thief")
    assert set(found) == {"thief"}, node.logs()
    return found["thief"]["containers"]


def test_kernel_enforces_a_policy_that_knows_containers(node: Node) -> None:
    assert node.shell("cat /sys/fs/selinux/enforce").out == "1"
    said = node.pykubelet("doctor || true").out
    assert "containers run as system_u:system_r:container_t:s0" in said, said


def test_container_runs_with_the_label_of_the_policy_and_a_level_of_its_pod(
    node: Node, pods: dict[str, Any], levels: dict[str, str]
) -> None:
    main, second = (label(node, each["pid"]) for each in pods["owner"]["containers"].values())
    assert main == second == f"system_u:system_r:container_t:{levels['owner']}"
    assert OWN.fullmatch(levels["owner"]) and OWN.fullmatch(levels["host"]), levels
    assert levels["owner"] != levels["host"]


def test_process_in_a_running_container_gets_its_label(node: Node, levels: dict[str, str]) -> None:
    done = node.pykubelet("exec owner -c main -- cat /proc/self/attr/current")
    assert done.out.strip("\0\n ") == f"system_u:system_r:container_t:{levels['owner']}"


def test_container_runs_with_the_label_that_it_asks_for(node: Node, pods: dict[str, Any]) -> None:
    everything, pod = (label(node, each["pid"]) for each in pods["asks"]["containers"].values())
    assert everything == ":".join(ASKED.values())
    assert pod == "system_u:system_r:container_t:s0"


def test_process_that_holds_the_namespace_of_a_pod_has_its_label(
    node: Node, pods: dict[str, Any], levels: dict[str, str]
) -> None:
    inside = f"/proc/{pods['shared']['containers']['main']['pid']}/root/proc/1"
    assert node.shell(f"cat {inside}/attr/current").out.strip("\0\n ") == (
        f"system_u:system_r:container_t:{levels['shared']}"
    )
    assert said(node, "shared", "main") == {"signal": True, "read": True}


def test_root_file_system_is_mounted_with_the_label_of_the_container(
    node: Node, pods: dict[str, Any], levels: dict[str, str]
) -> None:
    root = f"/proc/{pods['owner']['containers']['main']['pid']}/root"
    (mounted,) = node.shell(f"awk '$5 == \"/\"' {root.removesuffix('/root')}/mountinfo").out.splitlines()
    assert f'context="{FILES}:{levels["owner"]}"' in mounted
    labels = node.shell(f"stat -c %C {root}/bin/sh {root}/written {root}/dev/shm/file {root}/etc/hosts").out.split()
    assert labels == [f"{FILES}:{levels['owner']}"] * 4


def test_confined_container_uses_its_files_and_volumes_but_none_of_the_node(node: Node, pods: dict[str, Any]) -> None:
    could = dict.fromkeys(("root", "volume", "memory", "files", "downward"), True)
    assert said(node, "owner", "main") == {**could, "others": False}
    assert said(node, "owner", "beside") == {"volume": True}
    assert "scontext=system_u:system_r:container_t" in denials(node, "tcontext=[^ ]*:var_t:s0")


def test_volume_is_relabelled_and_a_directory_of_the_node_is_not(node: Node, levels: dict[str, str], data: str) -> None:
    labels = node.shell(f"stat -c %C {data} {data}/secret {OTHERS} {OTHERS}/file").out.split()
    assert labels[:2] == [f"{FILES}:{levels['owner']}"] * 2
    assert [each.split(":")[2] for each in labels[2:]] == ["var_t"] * 2


def test_volume_of_a_pod_that_asks_for_the_common_level_is_open_to_all_pods(node: Node, pods: dict[str, Any]) -> None:
    shared = volume(pods["asks"]["uid"])
    assert node.shell(f"stat -c %C {shared} {shared}/file").out.split() == [f"{FILES}:s0"] * 2


def test_pod_cannot_use_the_files_of_another_pod(node: Node, thieves: dict[str, Any], levels: dict[str, str]) -> None:
    """The same container with the level of the other pod can, and so can a privileged one."""
    names = ("read", "write", "list", "move")
    could = {name: said(node, "thief", name) for name in thieves}
    assert could["other"] == dict.fromkeys(names, False)
    assert could["same"] == could["privileged"] == dict.fromkeys(names, True)
    own = label(node, thieves["other"]["pid"])
    assert own.startswith("system_u:system_r:container_t:") and not own.endswith(levels["owner"])
    assert f"scontext={own} " in denials(node, f"tcontext={FILES}:{levels['owner']} ")


def test_privileged_container_runs_with_the_label_of_the_server(node: Node, pods: dict[str, Any]) -> None:
    server = label(node, int(node.main_pids()["pykubelet-criserver.service"]))
    assert label(node, pods["host"]["containers"]["privileged"]["pid"]) == server


def test_container_among_the_processes_of_the_node_is_confined_unless_it_asks_for_another_type(
    node: Node, pods: dict[str, Any], levels: dict[str, str]
) -> None:
    spc = pods["host"]["containers"]["spc"]["pid"]
    assert label(node, spc) == f"system_u:system_r:spc_t:{levels['host']}"
    could = {name: said(node, "host", name) for name in pods["host"]["containers"]}
    assert could == {
        "confined": {"signal": False, "node": False},
        "spc": {"signal": True, "node": True},
        "privileged": {"signal": True, "node": True},
    }


@pytest.mark.parametrize(
    ("name", "options", "unknown"),
    [
        ("type", {"type": "absent_t", "level": "s0:c3,c4"}, "system_u:system_r:absent_t:s0:c3,c4"),
        ("level", {"level": "s0:c5000"}, "system_u:system_r:container_t:s0:c5000"),
    ],
)
def test_label_that_the_policy_does_not_know_is_refused_with_a_reason(
    node: Node, name: str, options: dict[str, str], unknown: str
) -> None:
    node.add(f"wrong-{name}", "", containers=[container("main", tries(), seLinuxOptions=options)])
    found = node.ask(wait_refused, f"wrong-{name}")
    assert found["reason"] == "CreateContainerError", (found, node.logs())
    assert f"the SELinux policy does not know the label {unknown}" in found["details"], found
    node.remove(f"wrong-{name}")


def test_containers_get_no_labels_if_the_policy_does_not_know_them(node: Node) -> None:
    file = "/etc/selinux/default/contexts/lxc_contexts"
    node.shell(f"sed -i s/:container_t:/:absent_t:/ {file}; systemctl restart pykubelet-criserver")
    node.add("unlabelled", "", containers=[container("main", tries(root="echo x > /written"))])
    found = node.ask(wait_running, "unlabelled")
    server = label(node, int(node.main_pids()["pykubelet-criserver.service"]))
    assert label(node, found["unlabelled"]["containers"]["main"]["pid"]) == server
    assert said(node, "unlabelled", "main") == {"root": True}
    # The agent's messages about its pods may be many since the start of the server.
    log = node.shell("journalctl --no-pager -o cat -u pykubelet-criserver | grep 'policy does not know' || true").out
    reported = (node.pykubelet("doctor || true").out, log)
    assert all("the policy does not know system_u:system_r:absent_t:s0" in each for each in reported), reported
