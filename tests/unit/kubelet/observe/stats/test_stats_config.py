"""The configuration's fields about usage figures."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.kubelet.config import KubeletConfiguration, Settings
from pykubelet.kubelet.observe.stats.stats_config import stats_config


def settings(**fields: str) -> Settings:
    return Settings("node-1", replace(KubeletConfiguration(), **fields), "unix:///run/x.sock", root_dir=Path("/r"))


@pytest.mark.parametrize(
    ("fields", "groups"),
    [
        ({}, ("/kubepods", "/kubepods/burstable", "/kubepods/besteffort")),
        ({"cgroup_root": "/a"}, ("/a/kubepods", "/a/kubepods/burstable", "/a/kubepods/besteffort")),
        (
            {"cgroup_driver": "systemd"},
            (
                "/kubepods.slice",
                "/kubepods.slice/kubepods-burstable.slice",
                "/kubepods.slice/kubepods-besteffort.slice",
            ),
        ),
    ],
)
def test_usage_is_read_where_the_pods_cgroups_are(fields: dict[str, str], groups: tuple[str, ...]) -> None:
    assert stats_config(settings(**fields)).groups == groups


def test_names_paths_and_intervals_are_the_configured_ones() -> None:
    found = stats_config(settings(volume_stats_agg_period="2m", pod_logs_dir="/logs"))
    assert (found.node_name, found.root_dir, found.pod_logs_dir) == ("node-1", Path("/r"), Path("/logs"))
    assert (found.runtime_socket, found.volume_period) == ("unix:///run/x.sock", 120)
