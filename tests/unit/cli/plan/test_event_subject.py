"""The container that an event is about, by its field path."""

from typing import Any

import pytest

from pykubelet.cli.plan.event_subject import container_named, container_of


@pytest.mark.parametrize(
    ("path", "container"),
    [
        ("spec.containers{web}", "web"),
        ("spec.initContainers{prepare}", "prepare"),
        ("spec.ephemeralContainers{debug-1}", "debug-1"),
        ("", ""),
        (None, ""),
        ("spec.containers{}", ""),
        ("spec.volumes{web}", ""),
        ("spec.containers{web}x", ""),
    ],
)
def test_container_name_is_parsed_from_a_field_path(path: str | None, container: str) -> None:
    assert container_named(path) == container


@pytest.mark.parametrize("subject", [None, "text", {}, {"fieldPath": None}, {"fieldPath": 7}])
def test_event_without_a_usable_field_path_is_about_no_container(subject: Any) -> None:
    assert container_of({"involvedObject": subject}) == ""
