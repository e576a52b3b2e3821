"""The rules and chains of ``iptables -S`` that belong to a pod network. Pure."""

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass

_SHARED = ("CNI-HOSTPORT-DNAT", "CNI-HOSTPORT-MASQ", "CNI-HOSTPORT-SETMARK")
"""Chains of the portmap plugin for all networks; it creates them again when it needs them."""


@dataclass(frozen=True, slots=True)
class Removal:
    """The arguments of iptables for each step, in order."""

    rules: tuple[tuple[str, ...], ...] = ()
    chains: tuple[str, ...] = ()


def removal_of(listing: Sequence[str], networks: Collection[str]) -> Removal:
    """Return the removal of the rules of networks, of the chains these lead to, and of shared chains that end unused.

    ``listing``: the lines of ``iptables -t TABLE -S``. CNI plugins write the network's name into the comment of each
    rule that leads to one of their chains, and the runtime server that of the bridge into its own.
    """
    rules = [shlex.split(line)[1:] for line in listing if line.startswith("-A ")]
    existing = {shlex.split(line)[1] for line in listing if line.startswith("-N ")}
    going = [rule for rule in rules if _is_of(_comment(rule), networks)]
    chains = {target for rule in going if (target := _target(rule)).startswith("CNI-") and target not in _SHARED}
    kept = [rule for rule in rules if rule not in going and rule[0] not in chains]
    if not any(rule[0] == _SHARED[0] for rule in kept):
        shared = existing.intersection(_SHARED)
        going += [rule for rule in kept if _target(rule) in shared and rule[0] not in shared]
        chains |= shared
    removed = tuple(("-D", *rule) for rule in going if rule[0] not in chains)
    return Removal(removed, tuple(sorted(chains & existing)))


def _is_of(comment: str, networks: Collection[str]) -> bool:
    return any(comment == f"pods of {name}" or f'name: "{name}"' in comment for name in networks)


def _comment(rule: Sequence[str]) -> str:
    return _after(rule, "--comment")


def _target(rule: Sequence[str]) -> str:
    return _after(rule, "-j")


def _after(rule: Sequence[str], flag: str) -> str:
    position = rule.index(flag) + 1 if flag in rule else len(rule)
    return rule[position] if position < len(rule) else ""
