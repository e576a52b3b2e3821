"""Documents that are applied: everything is checked before the first object is written."""

from pathlib import Path
from typing import Any

import pytest

from pykubelet.base.errors import Conflict, Invalid, Permanent
from pykubelet.base.files.atomic import write_atomic
from pykubelet.kubelet.desired.changes import Document, ManifestDirectory, apply_documents, keys_of, manifest_directory
from pykubelet.kubelet.desired.manifest import ObjectKey, parse
from pykubelet.kubelet.types.reports.node_view import ApplyView, ChangeView, NodeView, ObjectView

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: a, image: one}]}\n"
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\nimmutable: true\ndata: {k: one}\n"
NODE = NodeView(name="n1", allocatable={"cpu": "2", "memory": "1Gi"})


def _apply(
    path: Path, *texts: str, namespace: str = "", dry_run: bool = False, kept: dict[str, str] | None = None
) -> ApplyView:
    directory = ManifestDirectory.of_agent(str(path / "m"), node_name="n1", kept=kept or {})
    documents = [Document(f"{index}.yaml", text.encode()) for index, text in enumerate(texts)]
    return apply_documents(documents, directory, NODE, namespace=namespace, dry_run=dry_run)


def _names(path: Path) -> list[str]:
    return sorted(each.name for each in (path / "m").iterdir()) if (path / "m").exists() else []


def test_objects_are_placed_with_config_maps_before_pods(tmp_path: Path) -> None:
    view = _apply(tmp_path, f"{POD}---\n{MAP}")
    assert [(each.label, each.change) for each in view.changes] == [
        ("configmap/c", "created"),
        ("pod/web", "created"),
    ]
    assert [bool(each.uid) for each in view.changes] == [False, True]
    assert (view.findings, view.errors, view.fault) == ((), 0, "")
    assert _names(tmp_path) == ["c.configmap.yaml", "web.yaml"]


def test_error_in_one_document_writes_nothing_of_any(tmp_path: Path) -> None:
    view = _apply(tmp_path, POD, POD.replace("web", "other").replace("image", "imagee"))
    assert view.errors == 1
    assert view.changes == ()
    assert "1.yaml:4" in view.findings[0] and "imagee" in view.findings[0]
    assert _names(tmp_path) == []


def test_pod_that_cannot_run_on_the_node_is_refused(tmp_path: Path) -> None:
    view = _apply(tmp_path, POD.replace("image: one", "image: one, resources: {requests: {cpu: 8}}"))
    assert view.errors == 1
    assert _names(tmp_path) == []


def test_findings_name_the_line_of_the_field(tmp_path: Path) -> None:
    pod = POD.replace("spec: {", "spec:\n  nodeSelector: {disk: ssd}\n  ").replace("]}\n", "]\n")
    view = _apply(tmp_path, f"{MAP}---\n{pod}")
    (finding,) = view.findings
    assert finding.startswith("0.yaml:11:18: error: Pod default/web: spec.nodeSelector[disk]: ")


def test_dry_run_tells_and_writes_nothing(tmp_path: Path) -> None:
    view = _apply(tmp_path, POD, dry_run=True)
    assert [each.change for each in view.changes] == ["created"]
    assert _names(tmp_path) == []


def test_object_that_cannot_be_placed_leaves_all_unchanged(tmp_path: Path) -> None:
    view = _apply(tmp_path, MAP, POD, kept={"Pod default/web": "/m/broken.yaml"})
    assert view.changes == ()
    assert "/m/broken.yaml" in view.fault and view.fault.endswith("; nothing was changed")
    assert _names(tmp_path) == []


def test_error_while_objects_are_written_keeps_the_changes_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path, data: bytes, *args: Any, **options: Any) -> None:
        if path.name == "web.yaml":
            raise OSError(28, "No space left on device")
        write_atomic(path, data, *args, **options)

    monkeypatch.setattr(manifest_directory, "write_atomic", write)
    view = _apply(tmp_path, MAP, POD)
    assert view.changes == (ChangeView(label="configmap/c", namespace="default", change="created"),)
    assert "No space left on device" in view.fault
    assert _names(tmp_path) == ["c.configmap.yaml"]


@pytest.mark.parametrize("ending", ["|\n    one", "|\n    one\n", "|+\n    one\n\n", ">\n    one", "|-\n    one"])
def test_block_scalar_at_the_end_of_a_file_keeps_its_value(tmp_path: Path, ending: str) -> None:
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata:\n  k: {ending}"
    before = parse(text.encode(), "given").objects
    view = _apply(tmp_path, POD, text)
    assert (view.fault, [each.change for each in view.changes]) == ("", ["created", "created"])
    file = tmp_path / "m/c.configmap.yaml"
    assert [each.digest for each in parse(file.read_bytes(), "f").objects] == [each.digest for each in before]
    assert [each.change for each in _apply(tmp_path, text).changes] == ["unchanged"]


def test_object_of_the_url_is_not_applied_beside_it(tmp_path: Path) -> None:
    for source, errors in (("http://127.0.0.1/m", 1), (str(tmp_path / "m/c.yaml"), 0)):
        there = ObjectView(kind="ConfigMap", namespace="default", name="c", source=source)
        directory = ManifestDirectory.of_agent(str(tmp_path / "m"), node_name="n1", kept={})
        node = NodeView(name="n1", manifests=str(tmp_path / "m"), objects=(there,))
        view = apply_documents([Document("0.yaml", MAP.encode())], directory, node)
        assert view.errors == errors
        assert [source in each and "change it there" in each for each in view.findings] == [True] * errors
        assert _names(tmp_path) == ([] if errors else ["c.configmap.yaml"])


def test_namespace_is_that_of_objects_that_name_none(tmp_path: Path) -> None:
    assert _apply(tmp_path, POD, namespace="apart").changes[0].label == "pod/web"
    assert _names(tmp_path) == ["apart.web.yaml"]
    with pytest.raises(Conflict, match="default"):
        _apply(tmp_path, POD.replace("{name: web}", "{name: web, namespace: default}"), namespace="apart")


def test_deeply_nested_document_is_refused_with_a_namespace(tmp_path: Path) -> None:
    view = _apply(tmp_path, "a: " + "[" * 29_000, namespace="apart")
    assert view.errors == 1
    assert "nested more than 64 levels deep" in view.findings[0]
    with pytest.raises(Invalid, match="nested more than 64 levels deep"):
        keys_of([Document("a.yaml", b"a: " + b"[" * 29_000)], "apart")


def test_changes_have_the_namespace_of_their_object(tmp_path: Path) -> None:
    view = _apply(tmp_path, POD, namespace="apart")
    assert [(each.label, each.namespace) for each in view.changes] == [("pod/web", "apart")]


def test_document_without_object_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match=r"0\.yaml: no object found"):
        _apply(tmp_path, "# only a comment\n")


@pytest.mark.parametrize(("path", "message"), [("", "reads no manifest directory"), ("m", "is relative")])
def test_agent_without_a_usable_directory_is_an_error(path: str, message: str) -> None:
    with pytest.raises(Permanent, match=message):
        ManifestDirectory.of_agent(path, node_name="n1", kept={})


def test_keys_are_found_in_documents_that_are_not_valid() -> None:
    document = Document("a.yaml", POD.replace("image", "imagee").encode())
    assert keys_of([document]) == [ObjectKey("Pod", "default", "web")]
    assert keys_of([document], "apart") == [ObjectKey("Pod", "apart", "web")]
