"""Each field that is declared as a duration is checked, and means what it means in the Go kubelet if it is zero."""

import ast
import inspect
from collections.abc import Iterator

import msgspec
import pytest

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.config import KubeletConfiguration, load_configuration, v1beta1

_ZERO_IS_REFUSED = {
    *("containerLogMonitorInterval", "cpuCFSQuotaPeriod", "crashLoopBackOff.maxContainerRestartPeriod"),
}
"""Pointers in the type of the Go kubelet, where only a field that is not set means the default."""


def _declared() -> set[tuple[str, str]]:
    """Return (class, field) of the fields with the type ``Duration``, which at run time is plain text."""
    classes = (node for node in ast.parse(inspect.getsource(v1beta1)).body if isinstance(node, ast.ClassDef))
    return {
        (found.name, ast.unparse(each.target))
        for found in classes
        for each in found.body
        if isinstance(each, ast.AnnAssign) and ast.unparse(each.annotation) == "Duration"
    }


DECLARED = _declared()


def _paths(config: msgspec.Struct, path: str = "") -> Iterator[str]:
    for field in msgspec.structs.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, msgspec.Struct):
            yield from _paths(value, f"{path}{field.encode_name}.")
        elif (type(config).__name__, field.name) in DECLARED:
            yield f"{path}{field.encode_name}"


DURATIONS = list(_paths(KubeletConfiguration()))


def test_each_declared_duration_has_a_path() -> None:
    assert len(DURATIONS) == len(DECLARED)


@pytest.mark.parametrize("path", DURATIONS)
def test_text_that_is_no_duration_is_refused(path: str) -> None:
    with pytest.raises(Invalid, match=f"{path}: 'ten' is not a duration"):
        load_configuration(None, flags={path: "ten"})


@pytest.mark.parametrize("path", DURATIONS)
def test_zero_means_the_default_or_is_refused(path: str) -> None:
    if path in _ZERO_IS_REFUSED:
        with pytest.raises(Invalid, match=path):
            load_configuration(None, flags={path: "0s"})
    else:
        assert load_configuration(None, flags={path: "0s"}) == load_configuration(None)
