"""Both daemons limit their heaps before a thread can get one of its own."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

_COUNT = """
import ctypes, os, sys, threading
from importlib import import_module

module = import_module(f"pykubelet.cli.commands.node.{sys.argv[1]}")
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p

def count_heaps(daemon):
    daemon.close()
    barrier = threading.Barrier(9)
    for _ in range(8):
        threading.Thread(target=barrier.wait, daemon=True).start()
    file = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b"w"))
    libc.malloc_info(0, file)
    libc.fclose(file)
    barrier.wait()

os.geteuid = lambda: 0
module.run_daemon = count_heaps
module.command.main(sys.argv[3:], standalone_mode=False)
"""
_FLAGS = {
    "run": (
        *("--manifests={}/pods", "--root-dir={}/root", "--run-dir={}/run", "--config={}/config"),
        "--container-runtime-endpoint=unix://{}/runtime.sock",
    ),
    "criserver": ("--root={}/root", "--run={}/run"),
}


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives each thread a heap")
@pytest.mark.parametrize("name", _FLAGS)
def test_threads_of_a_daemon_share_two_heaps(name: str, tmp_path: Path) -> None:
    config = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    (tmp_path / "config").write_text(json.dumps({**config, "healthzPort": 0, "enableServer": False}))
    flags = [flag.format(tmp_path) for flag in _FLAGS[name]]
    heaps = tmp_path / "heaps.xml"
    command = [sys.executable, "-c", _COUNT, name, str(heaps), *flags]
    done = subprocess.run(
        command, env={**os.environ, "PYKUBELET_AGENTS_DIR": ""}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert heaps.read_text().count("<heap nr=") <= 2
