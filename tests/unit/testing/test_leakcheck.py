"""leakcheck detects each kind of leftover, and reports nothing on a clean machine."""

import os
import secrets
import subprocess
from pathlib import Path

import pytest

from pykubelet.linux.cgroups import CgroupResources, detect, open_driver, problem
from pykubelet.linux.filesystems import mounts
from pykubelet.linux.namespaces import Namespace, pin_new, unpin
from pykubelet.testing import leakcheck
from pykubelet.testing.leakcheck import Kind, Leaks, Scope, diff, snapshot


def test_leak_check_without_a_difference_reports_none(monkeypatch: pytest.MonkeyPatch) -> None:
    scope = Scope(devices=True, descriptors=True, directories=("/nonexistent",), cgroup_parents=("/nonexistent",))
    assert "lo" in snapshot(scope).found[Kind.DEVICE] and snapshot(scope).found[Kind.DESCRIPTOR]
    # Other suites have pods, and gRPC closes descriptors of earlier tests meanwhile.
    monkeypatch.setattr(leakcheck, "_devices", lambda: ["lo"])
    monkeypatch.setattr(leakcheck, "_descriptors", lambda: ["pipe"])
    leaks = diff(snapshot(scope), snapshot(scope))
    assert not leaks
    assert leaks.report() == "no leaks"


def test_processes_by_environment_and_command() -> None:
    mark = f"pktest-{secrets.token_hex(4)}"
    scope = Scope(process_marks=(mark,))
    before = snapshot(scope)
    by_env = subprocess.Popen(["/bin/sleep", "600"], env={"MARK": mark})
    by_command = subprocess.Popen([mark, "600"], executable="/bin/sleep")
    others = subprocess.Popen(["/bin/sleep", "600"])
    try:
        leaks = diff(before, snapshot(scope))
        assert leaks.count(Kind.PROCESS) == 2
        assert f"leaked: process {by_env.pid} " in leaks.report()
        assert f"process {by_command.pid} " in leaks.report()
        assert f"process {others.pid} " not in leaks.report()
    finally:
        for process in (by_env, by_command, others):
            process.kill()
            process.wait()


def test_leaked_files_and_descriptors_are_reported(tmp_path: Path) -> None:
    scope = Scope(directories=(str(tmp_path),), descriptors=True)
    before = snapshot(scope)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "10.88.0.5").touch()
    ends = os.pipe()
    try:
        leaks = diff(before, snapshot(scope))
    finally:
        for end in ends:
            os.close(end)
    assert f"leaked: file {tmp_path}/sub/10.88.0.5" in leaks.report()
    assert leaks.count(Kind.DESCRIPTOR) == 2
    assert "pipe (2 times)" in leaks.report()
    assert not diff(snapshot(scope), snapshot(scope))


def test_lost_file_is_reported_but_is_no_leak(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    scope = Scope(directories=(str(tmp_path),))
    before = snapshot(scope)
    (tmp_path / "file").unlink()
    leaks = diff(before, snapshot(scope))
    assert not leaks
    assert leaks.report() == f"gone: file {tmp_path}/file"


def test_long_reports_are_cut(tmp_path: Path) -> None:
    scope = Scope(directories=(str(tmp_path),))
    before = snapshot(scope)
    for number in range(25):
        (tmp_path / f"{number}").touch()
    leaks = diff(before, snapshot(scope))
    assert leaks.count(Kind.FILE) == 25
    assert leaks.report().endswith("… and 5 more of kind file")
    assert Leaks().count(Kind.FILE) == 0


@pytest.mark.root
def test_leaked_mounts_and_namespaces_are_reported(tmp_path: Path) -> None:
    target = tmp_path / "t"
    target.mkdir()
    names = tmp_path / "netns"
    names.mkdir()
    scope = Scope(mount_roots=(str(tmp_path),), netns_directories=(str(names),))
    before = snapshot(scope)
    mounts.tmpfs(str(target))
    mounts.tmpfs(str(target))
    pin_new({Namespace.NET: str(names / "cni-1")})
    try:
        leaks = diff(before, snapshot(scope))
    finally:
        mounts.unmount_all_under(str(target))
        unpin(str(names / "cni-1"))
    assert leaks.count(Kind.NETNS) == 1
    assert leaks.count(Kind.MOUNT) == 3
    assert f"leaked: mount {target} (tmpfs) (2 times)" in leaks.report()
    assert not diff(before, snapshot(scope))


@pytest.mark.root
def test_cgroups_in_every_hierarchy() -> None:
    layout = detect()
    if why_not := problem(layout):
        pytest.skip(why_not)
    driver, parent = open_driver(layout), f"/pktest-{secrets.token_hex(4)}"
    scope = Scope(cgroup_parents=(parent,))
    driver.create(parent, CgroupResources())
    before = snapshot(scope)
    driver.create(f"{parent}/pod1", CgroupResources())
    try:
        leaks = diff(before, snapshot(scope))
        assert leaks.count(Kind.CGROUP) >= 1
        assert f"{parent}/pod1" in leaks.report()
        driver.delete(f"{parent}/pod1")
        assert not diff(before, snapshot(scope))
    finally:
        driver.delete(parent)


def test_addresses_are_files_named_by_a_number(tmp_path: Path) -> None:
    scope = Scope(addresses=(str(tmp_path),))
    before = snapshot(scope)
    for name in ("10.88.0.5", "last_reserved_ip.0", "lock"):
        (tmp_path / name).touch()
    leaks = diff(before, snapshot(scope))
    assert leaks.leaked[Kind.ADDRESS].keys() == {f"{tmp_path}/10.88.0.5"}


@pytest.mark.root
def test_firewall_rules_that_name_the_network() -> None:
    network = f"pkt{secrets.token_hex(3)}"
    scope = Scope(bridge=network)
    before = snapshot(scope)
    rule = [
        "POSTROUTING",
        "-s",
        "10.254.254.254",
        "-m",
        "comment",
        "--comment",
        f'name: "{network}" id: "x"',
        "-j",
        "RETURN",
    ]
    subprocess.run(["iptables", "-w", "-t", "nat", "-A", *rule], check=True)
    try:
        leaks = diff(before, snapshot(scope))
    finally:
        subprocess.run(["iptables", "-w", "-t", "nat", "-D", *rule], check=True)
    assert leaks.count(Kind.FIREWALL) == 1
    assert not diff(before, snapshot(scope))
