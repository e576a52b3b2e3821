"""Demands of the configuration on the machine before the agent starts."""

from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.actuate import assembly
from pykubelet.kubelet.compose.cluster import entry
from pykubelet.kubelet.config import ClusterSettings, KubeletConfiguration, Settings
from pykubelet.linux.cgroups import Layout, Mode
from pykubelet.testing.clock import VirtualClock

CLUSTER = ClusterSettings(Path("/none"))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Calls that check or set the kernel's tunables, on a machine where they differ."""
    made: list[str] = []

    def check() -> None:
        made.append("checked")
        raise Invalid("invalid kernel flag")

    monkeypatch.setattr(entry, "check_tunables", check)
    monkeypatch.setattr(entry, "set_tunables", lambda: made.append("set"))
    return made


@pytest.mark.parametrize("cluster", [CLUSTER, None])
async def test_agent_that_protects_the_defaults_of_the_kernel_does_not_start(
    calls: list[str], cluster: ClusterSettings | None
) -> None:
    config = KubeletConfiguration(protect_kernel_defaults=True)
    with pytest.raises(Invalid, match="invalid kernel flag"):
        await entry.make_ready(Settings("n", config, "unix:///none", cluster=cluster), VirtualClock())
    assert calls == ["checked"]


@pytest.mark.parametrize(("cluster", "done"), [(CLUSTER, ["set"]), (None, [])])
async def test_tunables_are_set_in_a_cluster_only(
    calls: list[str], cluster: ClusterSettings | None, done: list[str]
) -> None:
    await entry.make_ready(Settings("n", KubeletConfiguration(), "unix:///none", cluster=cluster), VirtualClock())
    assert calls == done


@pytest.mark.parametrize(("refused", "mode"), [(True, Mode.V1), (True, Mode.HYBRID), (False, Mode.V1)])
def test_cgroup_v1_is_refused_if_the_configuration_says_so(
    monkeypatch: pytest.MonkeyPatch, refused: bool, mode: Mode
) -> None:
    monkeypatch.setattr("pykubelet.linux.cgroups.detect", lambda: Layout(mode, Path("/none")))
    settings = Settings("n", KubeletConfiguration(fail_cgroup_v1=refused), "unix:///none")
    if refused:
        with pytest.raises(Invalid, match="failCgroupV1: kubelet is configured to not run on a host using cgroup v1"):
            assembly.check_machine(settings)
    else:
        assembly.check_machine(settings)
