"""The parts of the emulated machine that need no emulator: its RAM disk, its environment, its apt sources."""

import fcntl
import lzma
import subprocess
import sys
import threading
from importlib import metadata
from pathlib import Path

import pytest

from tools.v2 import image, project, selinux
from tools.v2.machine import Machine, MachineError, MachineLostError, kvm_works, memory_mib

DEPENDENCIES = """\
kernel/drivers/virtio/virtio.ko: kernel/drivers/virtio/virtio_ring.ko
kernel/drivers/virtio/virtio_ring.ko:
kernel/drivers/virtio/virtio_pci.ko: kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko
kernel/drivers/block/virtio_blk.ko: kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko
"""


def test_load_order_puts_needed_modules_first_and_each_once() -> None:
    order = image.load_order(DEPENDENCIES, ("virtio_pci", "virtio_blk"))
    assert [Path(each).stem for each in order] == ["virtio_ring", "virtio", "virtio_pci", "virtio_blk"]


def test_load_order_leaves_out_what_is_built_into_the_kernel() -> None:
    assert image.load_order(DEPENDENCIES, ("ext4",)) == []


def test_build_leaves_the_tree_of_another_one_in_the_same_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bootstrap(*_: object) -> list[str]:
        raise InterruptedError("this build ends here")

    for name, value in (
        ("own_release", lambda: "trixie"),
        ("debian_sources", lambda *_: ""),
        ("_bootstrap", bootstrap),
    ):
        monkeypatch.setattr(image, name, value)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    others = tmp_path / "image-trixie-1.new" / "tree"
    others.mkdir(parents=True)
    ended: list[BaseException] = []

    def build() -> None:
        try:
            image.build(tmp_path, "trixie")
        except InterruptedError as error:
            ended.append(error)

    second = threading.Thread(target=build)
    with (tmp_path / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second.start()
        second.join(0.5)
        assert (ended, others.exists()) == ([], True)
    second.join()
    assert (len(ended), others.exists()) == (1, False)


def test_initrd_is_an_archive_in_newc_format(tmp_path: Path) -> None:
    (tmp_path / "modules.dep").write_text(DEPENDENCIES)
    for line in DEPENDENCIES.splitlines():
        file = tmp_path / line.partition(":")[0]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"module")
    busybox = tmp_path / "busybox"
    busybox.write_bytes(b"program")
    found = _entries(image.initrd(busybox, tmp_path))
    assert found["bin/busybox"] == (0o100755, b"program")
    assert found["dev"] == (0o040755, b"")
    assert found["modules/virtio_blk.ko"] == (0o100644, b"module")
    assert b"for module in virtio_ring.ko virtio.ko virtio_pci.ko virtio_blk.ko;" in found["init"][1]


def test_initrd_has_compressed_modules_as_busybox_loads_them(tmp_path: Path) -> None:
    (tmp_path / "modules.dep").write_text("virtio_blk.ko.xz: virtio.ko.xz\nvirtio.ko.xz:\n")
    for name in ("virtio", "virtio_blk"):
        (tmp_path / f"{name}.ko.xz").write_bytes(lzma.compress(name.encode()))
    busybox = tmp_path / "busybox"
    busybox.write_bytes(b"program")
    found = _entries(image.initrd(busybox, tmp_path))
    assert found["modules/virtio_blk.ko"] == (0o100644, b"virtio_blk")
    assert b"for module in virtio.ko virtio_blk.ko;" in found["init"][1]


def _entries(content: bytes) -> dict[str, tuple[int, bytes]]:
    """Mode and content of all entries."""
    found: dict[str, tuple[int, bytes]] = {}
    while (entry := _entry(content))[0] != "TRAILER!!!":
        name, mode, data, content = entry
        found[name] = (mode, data)
    return found


def _entry(content: bytes) -> tuple[str, int, bytes, bytes]:
    """Name, mode and content of the first entry (cpio(5), new ASCII format), and what follows it."""
    assert content[:6] == b"070701"
    fields = [int(content[6 + 8 * number : 14 + 8 * number], 16) for number in range(13)]
    begin = 110 + fields[11]
    begin += -begin % 4
    end = begin + fields[6]
    return content[110 : 110 + fields[11] - 1].decode(), fields[1], content[begin:end], content[end + -end % 4 :]


def test_sources_are_those_of_the_debian_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = "http://m/debian/ stable main Debian\nhttp://m/debian/ stable main Debian\nhttp://x/ nodistro main Other\n"
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 0, listed))
    assert image.debian_sources("bookworm", "bookworm") == "deb http://m/debian/ stable main\n"


def test_sources_of_another_release_are_its_suites(monkeypatch: pytest.MonkeyPatch) -> None:
    suites = ("bookworm", "bookworm-updates", "bookworm-security", "bookwormish", "stable")
    listed = "".join(f"http://m/ {suite} main Debian\n" for suite in suites)
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 0, listed))
    found = image.debian_sources("bookworm", "trixie").splitlines()
    assert sorted(found) == [f"deb http://m/ trixie{kind} main" for kind in ("", "-security", "-updates")]


def test_sources_of_another_release_need_suites_with_the_name_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = "http://m/ stable main Debian\n"
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 0, listed))
    with pytest.raises(FileNotFoundError, match="the suite bookworm of"):
        image.debian_sources("bookworm", "trixie")


def test_sources_without_lists_name_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 0, "\n"))
    with pytest.raises(FileNotFoundError, match="apt-get update"):
        image.debian_sources("bookworm", "bookworm")


def test_closure_has_the_dependencies_of_dependencies_and_no_extras() -> None:
    names = {each.metadata["Name"].lower() for each in project.closure(["aiohttp>=3"])}
    assert {"aiohttp", "yarl", "multidict", "idna"} <= names
    assert not names & {"mypy", "ruff", "pytest"}


def test_closure_of_a_missing_distribution_fails() -> None:
    with pytest.raises(metadata.PackageNotFoundError):
        project.closure(["there-is-no-such-distribution>=1"])


def test_packages_for_another_version_of_python_come_from_pip_with_the_hashes_of_the_lock_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    locks: list[str] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        if "pip" in command:
            locks.append(Path(command[-1]).read_text())
        if command[0] == "mke2fs":
            stage = Path(command[command.index("-d") + 1])
            assert (stage / ".venv/bin/python").readlink() == Path("/usr/bin/python3.99")
            assert (stage / ".venv/lib/python3.99/site-packages/pykubelet.pth").exists()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr("tools.v2.project._TREES", ())
    monkeypatch.setattr("tools.v2.project.pack", lambda *_: None)
    project.build(tmp_path / "disk", "3.99")
    (pip,) = (each for each in asked if "pip" in each)
    assert "--python-version 3.99 --only-binary=:all:" in " ".join(pip) and "--require-hashes" in pip
    assert {"aiohttp==", "pytest==", "grpcio=="} <= {line.partition("==")[0] + "==" for line in locks[0].splitlines()}
    assert "mypy==" not in locks[0] and locks[0].count("--hash=") > 100


def test_no_packages_for_the_version_of_python_is_an_error_with_the_words_of_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.v2.project._TREES", ())
    failed = subprocess.CompletedProcess([], 1, "", "no matching distribution")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(RuntimeError, match=r"for Python 2\.7: no matching distribution"):
        project.build(tmp_path / "disk", "2.7")
    assert list(tmp_path.iterdir()) == []


def test_part_of_a_lock_file_has_whole_entries_by_any_spelling_of_names() -> None:
    lock = "a-b==1 \\\n    --hash=x\n    # via c\nc==2 \\\n    --hash=y\n\n# a comment\nd==3 \\\n    --hash=z\n"
    assert project.locked(lock, ["A_B", "d"]) == ("a-b==1 \\\n    --hash=x\n    # via c\nd==3 \\\n    --hash=z\n")
    with pytest.raises(RuntimeError, match="does not have e"):
        project.locked(lock, ["e"])


def test_a_machine_whose_emulator_ends_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "qemu"
    program.write_text("#!/bin/sh\necho no such machine >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr("tools.v2.machine.PROGRAM", str(program))
    machine = Machine(image.Image(tmp_path), tmp_path / "project", tmp_path / "run")
    with pytest.raises(MachineError, match=r"qemu did not start: qemu has ended(.|\n)*no such machine"):
        machine.start()
    machine.destroy()


@pytest.mark.parametrize(("enforcing", "security"), [(False, "apparmor"), (True, "selinux")])
def test_machine_boots_with_one_of_the_security_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enforcing: bool, security: str
) -> None:
    program = tmp_path / "qemu"
    program.write_text("#!/bin/sh\necho $* >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr("tools.v2.machine.PROGRAM", str(program))
    machine = Machine(image.Image(tmp_path, enforcing), tmp_path / "project", tmp_path / "run")
    with pytest.raises(MachineError):
        machine.start()
    machine.destroy()
    words = (tmp_path / "run/qemu.log").read_text().split()
    assert [word for word in words if word.startswith("security=")] == [f"security={security}"]
    assert ("enforcing=1" in words) is enforcing and ("audit=0" in words) is not enforcing


def test_files_are_labelled_after_the_types_of_containers_were_added(tmp_path: Path) -> None:
    for name in ("etc/selinux", "etc/systemd", "root"):
        (tmp_path / name).mkdir(parents=True)
    calls: list[tuple[str, ...]] = []
    selinux.prepare(tmp_path, lambda *command: calls.append(command))
    assert [next(word for word in ("semodule", "setfiles") if word in " ".join(each)) for each in calls] == [
        "semodule",
        "setfiles",
    ]
    assert "(type container_t)" in (tmp_path / "root/containers.cil").read_text()
    assert "SELINUX=enforcing\n" in (tmp_path / "etc/selinux/config").read_text()


@pytest.mark.parametrize(
    ("flags", "exists", "works"),
    [("fpu vmx sse", True, True), ("fpu svm", True, True), ("fpu hypervisor", True, False), ("fpu vmx", False, False)],
)
def test_kvm_needs_the_device_and_a_processor_for_it(tmp_path: Path, flags: str, exists: bool, works: bool) -> None:
    device, processors = tmp_path / "kvm", tmp_path / "cpuinfo"
    processors.write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t: vmx_x\n")
    if exists:
        device.touch()
    assert kvm_works(device, processors) is works


@pytest.mark.parametrize("works", [True, False])
def test_machine_is_emulated_if_it_does_not_boot_with_kvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, works: bool
) -> None:
    program = tmp_path / "qemu"
    program.write_text(f'#!/bin/sh\necho "$2" >> {tmp_path}/started\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setattr("tools.v2.machine.PROGRAM", str(program))
    monkeypatch.setattr("tools.v2.machine.kvm_works", lambda: works)
    machine = Machine(image.Image(tmp_path), tmp_path / "project", tmp_path / "run")
    with pytest.raises(MachineLostError):
        machine.boot()
    started = (tmp_path / "started").read_text().split()
    assert started == (["q35,accel=kvm"] if works else []) + ["q35,accel=tcg"]
    assert machine.accelerator == "tcg"
    machine.destroy()


@pytest.mark.parametrize(("available_kib", "mib"), [(10 << 20, 6144), (9 << 20, 2048)])
def test_memory_of_the_machine_depends_on_what_the_host_can_spare(tmp_path: Path, available_kib: int, mib: int) -> None:
    file = tmp_path / "meminfo"
    file.write_text(f"MemTotal: 99999999 kB\nMemAvailable: {available_kib} kB\nHugePages_Total: 0\n")
    assert memory_mib(file) == mib


def test_commands_fail_as_without_a_machine_after_qemu_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "qemu"
    serve = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('channel.new'); s.listen(); import os; "
    serve += "os.rename('channel.new', 'channel'); c, _ = s.accept(); c.recv(1)"
    (tmp_path / "run").mkdir()
    program.write_text(f'#!/bin/sh\ncd {tmp_path}/run && exec {sys.executable} -c "{serve}"\n')
    program.chmod(0o755)
    monkeypatch.setattr("tools.v2.machine.PROGRAM", str(program))
    machine = Machine(image.Image(tmp_path), tmp_path / "project", tmp_path / "run")
    machine.start()
    try:
        # The first one may still be sent before the end is seen.
        for _ in range(2):
            with pytest.raises(MachineLostError, match="qemu has ended"):
                machine.run("true")
    finally:
        machine.destroy()
