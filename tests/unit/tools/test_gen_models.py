"""The generator of the models, on a document of a few definitions."""

import importlib.util
import json
import lzma
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "gen_models.py"


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gen_models_under_test", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


gen_models = load_tool()


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("podIP", "pod_ip"),
        ("podIPs", "pod_ips"),
        ("podCIDRs", "pod_cidrs"),
        ("containerID", "container_id"),
        ("setHostnameAsFQDN", "set_hostname_as_fqdn"),
        ("hostPID", "host_pid"),
        ("seLinuxOptions", "se_linux_options"),
        ("targetWWNs", "target_wwns"),
        ("fsGroup", "fs_group"),
        ("from", "from_"),
        ("except", "except_"),
        ("bool", "bool_"),
        ("uid", "uid"),
        ("stubPKCS10Request", "stub_pkcs10_request"),
    ],
)
def test_name_of_a_field_becomes_snake_case(name: str, attribute: str) -> None:
    assert gen_models.snake_case(name) == attribute


META = "io.k8s.apimachinery.pkg.apis.meta.v1"
DEFINITIONS = {
    f"{META}.ObjectMeta": {
        "properties": {"name": {"type": "string"}, "created": {"$ref": f"#/definitions/{META}.Time"}},
    },
    f"{META}.Time": {"type": "string", "format": "date-time"},
    "io.k8s.api.core.v1.ThingSpec": {
        "required": ["count", "parts"],
        "properties": {
            "count": {"type": "integer", "format": "int32"},
            "limit": {"type": "integer"},
            "parts": {"type": "array", "items": {"$ref": "#/definitions/io.k8s.api.core.v1.Part"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    },
    "io.k8s.api.core.v1.Part": {
        "description": "words that must not be copied",
        "properties": {"mode": {"type": "string"}, "dataIP": {"type": "string", "format": "byte"}},
    },
    "io.k8s.api.core.v1.Thing": {
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"$ref": f"#/definitions/{META}.ObjectMeta"},
            "spec": {"$ref": "#/definitions/io.k8s.api.core.v1.ThingSpec"},
            "part": {"$ref": "#/definitions/io.k8s.api.core.v1.Part"},
        },
        "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Thing"}],
    },
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A document of few definitions, and the tool told to want those."""
    monkeypatch.setattr(gen_models, "ROOTS", {"core_v1": ("Thing",)})
    monkeypatch.setattr(gen_models, "NULLABLE_STRINGS", {"core_v1.Part.mode": "a reason"})
    document = tmp_path / "api.json.xz"
    document.write_bytes(lzma.compress(json.dumps({"definitions": DEFINITIONS}).encode()))
    return document


def test_generated_module_has_classes_in_order_of_use(small: Path, tmp_path: Path) -> None:
    assert gen_models.main([str(small), "--out", str(tmp_path / "models"), "--release", "9.9"]) == 0
    text = (tmp_path / "models" / "core_v1.py").read_text()
    for line in (
        '"""Kubernetes 9.9 objects of core/v1: names and types.',
        "from pykubelet.models.meta_v1 import ObjectMeta",
        "class Part(KubeStruct, frozen=True, kw_only=True):",
        '    data_ip: bytes = msgspec.field(default=b"", name="dataIP")',
        "    mode: str | None = None",
        "    count: int",
        "    labels: dict[str, str] = {}",
        "    limit: int | None = None",
        "    parts: tuple[Part, ...] = ()",
        "    metadata: ObjectMeta = ObjectMeta()",
        "    part: Part | None = None",
        "    spec: ThingSpec | None = None",
        'API_VERSION: Final = "v1"',
        '    "Thing": Thing,',
    ):
        assert f"\n{line}\n" in f"\n{text}", line
    assert "words" not in text
    assert text.index("class Part") < text.index("class ThingSpec") < text.index("class Thing(")
    assert "    created: Time | None = None" in (tmp_path / "models" / "meta_v1.py").read_text()


def test_check_tells_whether_the_modules_are_up_to_date(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(small), "--out", str(tmp_path / "models")]
    assert gen_models.main([*arguments, "--check"]) == 1
    assert not (tmp_path / "models").exists()
    assert gen_models.main(arguments) == 0
    assert gen_models.main([*arguments, "--check"]) == 0
    core = tmp_path / "models" / "core_v1.py"
    core.write_text(core.read_text() + "# edited\n")
    capsys.readouterr()
    assert gen_models.main([*arguments, "--check"]) == 1
    assert "core_v1.py is not up to date" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ROOTS": {"core_v1": ("Nothing",)}}, "has no definition"),
        ({"NULLABLE_STRINGS": {"core_v1.Part.gone": "x"}}, "fields that do not exist"),
        ({"NULLABLE_STRINGS": {"core_v1.ThingSpec.count": "x"}}, "is no string"),
        ({"MODULES": {"core_v1": "io.k8s.api.core.v1"}}, "its group is not in MODULES"),
    ],
)
def test_mistakes_in_the_tables_are_reported(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, object], message: str
) -> None:
    for name, value in change.items():
        monkeypatch.setattr(gen_models, name, value)
    with pytest.raises(SystemExit, match=message):
        gen_models.main([str(small), "--out", str(tmp_path)])
