"""Volumes in memory may reach a swap device, if there is one and the kernel cannot prevent it."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.volumes import memory_volumes_may_swap
from pykubelet.linux import system
from pykubelet.linux.filesystems import mounts


@pytest.mark.parametrize(
    ("swap", "kernel", "noswap", "expected", "asked"),
    [
        (0, (5, 10), False, False, False),
        (1, (6, 4), False, False, False),
        (1, (6, 3), False, True, True),
        (1, (5, 14), True, False, True),
    ],
)
def test_memory_volumes_may_swap_if_the_kernel_cannot_prevent_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    swap: int,
    kernel: tuple[int, int],
    noswap: bool,
    expected: bool,
    asked: bool,
) -> None:
    calls: list[str] = []

    def mount(target: str, *, options: dict[str, str]) -> None:
        calls.append(f"mount {target} {options}")
        if not noswap:
            raise Invalid("wrong option")

    facts = replace(system.meminfo(), swap_total=Bytes(swap))
    monkeypatch.setattr(system, "meminfo", lambda: facts)
    monkeypatch.setattr(system, "kernel_release", lambda: kernel)
    monkeypatch.setattr(mounts, "tmpfs", mount)
    monkeypatch.setattr(mounts, "unmount", lambda target, *, lazy: calls.append(f"unmount {target}"))
    assert memory_volumes_may_swap(tmp_path) is expected
    path = tmp_path / ".noswap"
    assert calls == [f"mount {path} {{'noswap': ''}}", f"unmount {path}"][: asked + noswap]
    assert not path.exists()
