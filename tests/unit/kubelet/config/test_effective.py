"""The fields that have an effect: the table, the configuration's fields and the documentation agree."""

import re
from pathlib import Path

import msgspec

from pykubelet.kubelet.config.plan.field_effects import EFFECTIVE
from pykubelet.kubelet.config.v1beta1 import KubeletConfiguration

PARITY = Path(__file__).resolve().parents[4] / "docs" / "parity.md"


def test_effective_fields_are_fields_of_the_configuration() -> None:
    assert {field.encode_name for field in msgspec.structs.fields(KubeletConfiguration)} >= EFFECTIVE


def test_documentation_lists_the_effective_fields() -> None:
    text = PARITY.read_text().partition("## Fields of KubeletConfiguration that have an effect")[2]
    listed = text.partition("All other fields")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == EFFECTIVE - {"kind", "apiVersion"}
