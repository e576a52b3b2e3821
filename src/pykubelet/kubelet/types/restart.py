"""Whether a container that has ended runs again: by its restart rules, its own policy, then the pod's.

Both the stage that restarts containers and the one that reports a pod's phase decide by these rules, and must never
disagree. Sources: KEP-5307 (container restart rules), KEP-5532 (restart of all containers).
"""

from enum import StrEnum

from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.models.core_v1 import ContainerRestartRule, Pod


class RuleAction(StrEnum):
    """What a restart rule does when it matches."""

    RESTART = "Restart"
    RESTART_ALL = "RestartAllContainers"


def matching_rule(container: AnyContainer, exit_code: int) -> ContainerRestartRule | None:
    """The first restart rule of the container that the exit code fits."""
    for rule in container.restart_policy_rules:
        codes = rule.exit_codes
        if codes is None or codes.operator not in ("In", "NotIn"):
            continue
        if (exit_code in codes.values) == (codes.operator == "In"):
            return rule
    return None


def asks_restart_of_all(container: AnyContainer, exit_code: int) -> bool:
    """Whether a container that has ended with this code asks for a restart of all containers of its pod."""
    rule = matching_rule(container, exit_code)
    return rule is not None and rule.action == RuleAction.RESTART_ALL


def has_restart_all_rule(pod: Pod) -> bool:
    """Whether any container of the pod has a rule that restarts all of them."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return any(rule.action == RuleAction.RESTART_ALL for c in containers for rule in c.restart_policy_rules)


def restarts_after_exit(pod: Pod, container: AnyContainer, exit_code: int) -> bool:
    """Whether a container that has ended with this code runs again. Rules count only beside a policy of its own."""
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
