"""The fields that have an effect: the table, the configuration's fields and the documentation agree."""

import re
from pathlib import Path

import msgspec

from pykubelet.kubelet.config.plan.field_effects import EFFECTIVE, EFFECTS, ChangeRequirement
from pykubelet.kubelet.config.v1beta1 import KubeletConfiguration

ROOT = Path(__file__).resolve().parents[4]
PARITY = ROOT / "docs" / "parity.md"
PRODUCT = ROOT / "src" / "pykubelet"


def test_effective_fields_are_fields_of_the_configuration() -> None:
    assert {field.encode_name for field in msgspec.structs.fields(KubeletConfiguration)} >= EFFECTIVE


def test_documentation_lists_the_live_fields_and_those_that_need_a_restart() -> None:
    text = PARITY.read_text().partition("## Fields of KubeletConfiguration that have an effect")[2]
    lists = text.partition("All other fields")[0].partition("needs a restart")
    live, restart = (set(re.findall(r"`(\w+)`", lists[part])) for part in (0, 2))
    assert live == {name for name, effect in EFFECTS.items() if effect.on_change is ChangeRequirement.LIVE}
    assert restart == EFFECTIVE - live - {"kind", "apiVersion"}


def fields_that_code_reads() -> set[str]:
    """The attributes of values called ``config`` or ``…config`` that the agent reads, besides the checks of values."""
    checks = {"load.py", "v1beta1.py", "value_rules.py", "strict_fields.py"}
    files = (*PRODUCT.glob("kubelet/**/*.py"), *PRODUCT.glob("cli/**/*.py"))
    read = (path for path in files if path.parent != PRODUCT / "kubelet" / "config" or path.name not in checks)
    return {name for path in read for name in re.findall(r"config\.(\w+)", path.read_text())}


def test_fields_have_an_effect_if_code_reads_them() -> None:
    reads = fields_that_code_reads()
    fields = {each.name: each.encode_name for each in msgspec.structs.fields(KubeletConfiguration)}
    read = {encoded for name, encoded in fields.items() if name in reads}
    assert read | {"kind", "apiVersion"} == EFFECTIVE
