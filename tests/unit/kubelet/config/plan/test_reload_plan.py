"""Changes that a reload makes, and the state of each field."""

from msgspec.structs import replace

from pykubelet.kubelet.config.plan.reload_plan import FieldView, field_views, plan_reload
from pykubelet.kubelet.config.v1beta1 import KubeletConfiguration

OLD = KubeletConfiguration()


def test_live_fields_get_new_values_and_others_keep_theirs() -> None:
    new = replace(OLD, max_pods=5, port=1, run_once=True)
    plan = plan_reload(started=OLD, in_force=OLD, wanted=new, cluster=False)
    assert plan.config == replace(OLD, max_pods=5)
    assert (plan.live, plan.restart, plan.ignored) == (frozenset({"maxPods"}), ("port",), ("runOnce",))
    assert plan.message == "maxPods applied; port needs a restart"


def test_same_configuration_changes_nothing() -> None:
    plan = plan_reload(started=OLD, in_force=OLD, wanted=OLD, cluster=True)
    assert (plan.config, plan.live, plan.restart, plan.ignored) == (OLD, frozenset(), (), ())
    assert plan.message == "nothing to apply"


def test_field_that_goes_back_needs_no_restart_any_more() -> None:
    in_force = replace(OLD, max_pods=5)
    plan = plan_reload(started=OLD, in_force=in_force, wanted=OLD, cluster=False)
    assert (plan.config, plan.live, plan.restart) == (OLD, frozenset({"maxPods"}), ())


def test_value_that_the_agent_took_from_the_runtime_is_no_change_of_the_file() -> None:
    in_force = replace(OLD, cgroup_driver="systemd")
    plan = plan_reload(started=OLD, in_force=in_force, wanted=OLD, cluster=False)
    assert (plan.config, plan.restart) == (in_force, ())


def test_several_fields_that_need_a_restart_are_named() -> None:
    new = replace(OLD, port=1, address="::")
    assert plan_reload(started=OLD, in_force=OLD, wanted=new, cluster=False).message == (
        "nothing to apply; address, port need a restart"
    )


def views(configured: KubeletConfiguration) -> dict[str, FieldView]:
    found = field_views(started=OLD, in_force=OLD, configured=configured, cluster=False)
    return {each.field: each for each in found}


def test_views_have_values_states_and_reasons() -> None:
    found = views(replace(OLD, port=1, run_once=True))
    port, pods, once = found["port"], found["maxPods"], found["runOnce"]
    assert (port.in_force, port.configured, port.default, port.on_change) == (10250, 1, False, "restart")
    assert (port.state, port.reason) == ("needs restart", "sockets are opened at the start")
    assert (pods.state, pods.on_change, pods.default) == ("applied", "live", True)
    assert (once.state, once.on_change, once.configured) == ("no effect", "none", True)


def test_values_that_may_be_credentials_are_hidden() -> None:
    found = views(replace(OLD, static_pod_url_header={"Authorization": ("Bearer abc",)}))
    assert found["staticPodURLHeader"].configured == {"Authorization": "(hidden)"}
    found = views(replace(OLD, static_pod_url="https://me:pa55word@host/pods"))
    assert found["staticPodURL"].configured == "https://host/pods"
