"""A container that has ended runs again if its policy or a restart rule says so."""

import pytest

from pykubelet.kubelet.types.restart import (
    asks_restart_of_all,
    has_restart_all_rule,
    matching_rule,
    restarts_after_exit,
)
from pykubelet.models import core_v1 as core


def rule(action: str, operator: str, *values: int) -> core.ContainerRestartRule:
    codes = core.ContainerRestartRuleOnExitCodes(operator=operator, values=values)
    return core.ContainerRestartRule(action=action, exit_codes=codes)


def pod(container: core.Container, policy: str = "") -> core.Pod:
    return core.Pod(spec=core.PodSpec(containers=(container,), restart_policy=policy))


@pytest.mark.parametrize(
    ("own", "of_pod", "on_success", "on_failure"),
    [
        ("", "", True, True),
        ("", "Always", True, True),
        ("", "OnFailure", False, True),
        ("", "Never", False, False),
        ("Always", "Never", True, True),
        ("OnFailure", "Always", False, True),
        ("Never", "Always", False, False),
    ],
)
def test_restart_after_an_exit_follows_the_policies(own: str, of_pod: str, on_success: bool, on_failure: bool) -> None:
    container = core.Container(name="a", restart_policy=own)
    value = pod(container, of_pod)
    assert [restarts_after_exit(value, container, code) for code in (0, 1)] == [on_success, on_failure]


@pytest.mark.parametrize(
    ("rules", "code", "expected"),
    [
        ((rule("Restart", "In", 1, 2),), 2, True),
        ((rule("Restart", "In", 1, 2),), 3, False),
        ((rule("Restart", "NotIn", 1),), 2, True),
        ((rule("Restart", "NotIn", 1),), 1, False),
        ((rule("Restart", "Near", 1),), 1, False),
        ((core.ContainerRestartRule(action="Restart"),), 1, False),
        ((rule("Restart", "In", 9), rule("RestartAllContainers", "In", 1)), 1, True),
    ],
)
def test_restart_rules_go_before_the_containers_policy(
    rules: tuple[core.ContainerRestartRule, ...], code: int, expected: bool
) -> None:
    container = core.Container(name="a", restart_policy="Never", restart_policy_rules=rules)
    assert restarts_after_exit(pod(container), container, code) is expected
    assert (matching_rule(container, code) is not None) is expected
    without = core.Container(name="a", restart_policy_rules=rules)
    assert not restarts_after_exit(pod(without, "Never"), without, code), "rules go with a policy of their own"


def test_restart_of_all_containers_is_asked_by_a_rule_only() -> None:
    asking = core.Container(name="a", restart_policy_rules=(rule("RestartAllContainers", "In", 42),))
    plain = core.Container(name="b", restart_policy_rules=(rule("Restart", "In", 42),))
    assert asks_restart_of_all(asking, 42)
    assert not asks_restart_of_all(asking, 1)
    assert not asks_restart_of_all(plain, 42)
    assert has_restart_all_rule(pod(asking))
    assert not has_restart_all_rule(pod(plain))
    assert has_restart_all_rule(core.Pod(spec=core.PodSpec(init_containers=(asking,), containers=(plain,))))
