"""The validators by kind of object."""

from typing import assert_never

from pykubelet.kubelet.desired.manifest.manifest_types import Finding, LocalObject
from pykubelet.kubelet.desired.manifest.validate.findings import Findings
from pykubelet.kubelet.desired.manifest.validate.objects import check_config_map, check_secret
from pykubelet.kubelet.desired.manifest.validate.pod import check_pod
from pykubelet.models import core_v1 as core


def validate(value: LocalObject) -> tuple[Finding, ...]:
    """Return all violated rules of an object with defaults set; empty if it is valid."""
    findings = Findings()
    match value:
        case core.Pod():
            check_pod(findings, value)
        case core.ConfigMap():
            check_config_map(findings, value)
        case core.Secret():
            check_secret(findings, value)
        case _:
            assert_never(value)
    return tuple(findings.items)
