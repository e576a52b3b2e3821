"""Checks of the start that a reload repeats."""

from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.kubelet.config import KubeletConfiguration
from pykubelet.kubelet.config.plan.repeated_checks import RepeatedChecks, repeated_checks

STARTED = KubeletConfiguration()


def checks(*, served: bool = True, serves: bool = True, **changes: Any) -> RepeatedChecks:
    return repeated_checks(STARTED, replace(STARTED, **changes), served=served, serves=serves)


def test_reload_that_changes_neither_machine_nor_files_repeats_nothing() -> None:
    assert checks(max_pods=3) == RepeatedChecks(machine=False, files=False)


@pytest.mark.parametrize("change", [{"fail_swap_on": False}, {"kube_reserved": {"cpu": "1"}}])
def test_machine_is_checked_again_when_a_requirement_changes(change: dict[str, Any]) -> None:
    assert checks(**change).machine


def test_files_are_read_again_when_one_is_named_or_the_server_is_enabled() -> None:
    assert checks(tls_cert_file="/new").files
    assert checks(served=False).files


def test_files_of_a_server_that_is_not_enabled_are_not_read() -> None:
    assert not checks(serves=False, tls_cert_file="/new").files
