"""Pods get only those SELinux labels that the policy of the machine knows."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from msgspec.structs import replace

from pykubelet.criserver.compose.handlers import HandlerFactory
from pykubelet.criserver.compose.open_machine import open_machine
from pykubelet.criserver.config import load_settings
from pykubelet.criserver.machine import ConfiguredHandlers, Machine
from pykubelet.linux.selinux import ContainerLabels

KNOWN = ContainerLabels(process="u:r:container_t:s0", files="u:r:f_t:s0", layers="u:r:l_t:s0")
UNKNOWN = ContainerLabels(problem="the policy does not know u:r:container_t:s0")


def opened(root: Path, monkeypatch: pytest.MonkeyPatch, labels: ContainerLabels, *, enabled: bool) -> Machine:
    monkeypatch.setattr("pykubelet.linux.selinux.container_labels", lambda: labels)
    settings = replace(load_settings(None), root=root, run=root, enable_selinux=enabled)
    for directory in (settings.root_filesystems, settings.sandboxes):
        directory.mkdir(parents=True)
    factory = SimpleNamespace(
        build=lambda _: ConfiguredHandlers(runtimes={}, default="runc", options={}, networks={}),
        tools=SimpleNamespace(conmon=None, oom_kills=None),
    )
    return open_machine(settings, cast(HandlerFactory, factory))


@pytest.mark.parametrize(
    ("labels", "enabled", "confined", "warnings"),
    [
        (ContainerLabels(), True, False, 0),
        (KNOWN, True, True, 0),
        (KNOWN, False, False, 0),
        (UNKNOWN, True, False, 1),
        (UNKNOWN, False, False, 0),
    ],
)
def test_pods_get_selinux_labels_that_the_policy_knows(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    labels: ContainerLabels,
    enabled: bool,
    confined: bool,
    warnings: int,
) -> None:
    with caplog.at_level(logging.WARNING):
        host = opened(tmp_path, monkeypatch, labels, enabled=enabled).host
    assert host.selinux is confined and host.selinux_problem == labels.problem
    said = [record for record in caplog.records if "SELinux" in record.getMessage()]
    assert len(said) == warnings
    for record in said:
        assert "enable_selinux = false" in record.getMessage() and record.__dict__["problem"] == UNKNOWN.problem
