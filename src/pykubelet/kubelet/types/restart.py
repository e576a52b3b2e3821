"""Restart policy: whether a container that has ended runs again, by its restart rules, its own policy, the pod's.

How long a container waits before that is decided in ``kubelet/actuate/podruntime/plan/crashloop.py``. The stage that
restarts containers and the one that reports a pod's phase both use these rules, so that they agree. Sources: KEP-5307
(container restart rules), KEP-5532 (restart of all containers).
"""

from enum import StrEnum

from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.models.core_v1 import ContainerRestartRule, Pod


class RuleAction(StrEnum):
    """Action of a restart rule that matches."""

    RESTART = "Restart"
    RESTART_ALL = "RestartAllContainers"


def matching_rule(container: AnyContainer, exit_code: int) -> ContainerRestartRule | None:
    """Return the first restart rule of the container that matches the exit code."""
    for rule in container.restart_policy_rules:
        codes = rule.exit_codes
        if codes is None or codes.operator not in ("In", "NotIn"):
            continue
        if (exit_code in codes.values) == (codes.operator == "In"):
            return rule
    return None


def asks_restart_of_all(container: AnyContainer, exit_code: int) -> bool:
    """Whether the exit code of a container restarts all containers of its pod."""
    rule = matching_rule(container, exit_code)
    return rule is not None and rule.action == RuleAction.RESTART_ALL


def has_restart_all_rule(pod: Pod) -> bool:
    """Whether a container of the pod has a rule that restarts all containers."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return any(rule.action == RuleAction.RESTART_ALL for c in containers for rule in c.restart_policy_rules)


def restarts_after_exit(pod: Pod, container: AnyContainer, exit_code: int) -> bool:
    """Whether a container that has ended with this code runs again.

    Restart rules apply only to a container that has a restart policy of its own.
    """
    if container.restart_policy:
        rule = matching_rule(container, exit_code)
        if rule is not None and rule.action in set(RuleAction):
            return True
    match container.restart_policy or pod.spec.restart_policy:
        case "Never":
            return False
        case "OnFailure":
            return exit_code != 0
        case _:
            return True
