"""Fields of a new configuration that take effect at once, and those that wait for a restart."""

from pathlib import Path

from pykubelet.criserver.config import Settings
from pykubelet.criserver.config.settings import Handler, RegistryHost
from pykubelet.criserver.reload.plan.reload_plan import LIVE, plan_reload


def test_live_fields_are_taken_and_others_wait_for_a_restart() -> None:
    handlers = {"runc": Handler("runc"), "new": Handler("crun")}
    wanted = Settings(handlers=handlers, registries={"r": RegistryHost(plain_http=True)}, conmon="/c", root=Path("/r"))
    plan = plan_reload(Settings(), wanted)
    assert plan.live == ("handlers", "registries")
    assert plan.restart == ("root", "conmon")
    assert plan.settings == Settings(handlers=handlers, registries={"r": RegistryHost(plain_http=True)})


def test_equal_settings_change_nothing() -> None:
    plan = plan_reload(Settings(), Settings())
    assert (plan.live, plan.restart, plan.settings) == ((), (), Settings())


def test_live_fields_are_fields_of_the_settings() -> None:
    assert set(Settings.__struct_fields__) >= LIVE
