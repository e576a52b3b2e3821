"""CDI files on disk."""

import json
from pathlib import Path
from typing import cast

import pytest

from pykubelet.base.errors import NotFound
from pykubelet.criserver.container.bundle.cdi import inject
from pykubelet.criserver.spec import build_container
from pykubelet.criserver.spec.spec_types import Json
from tests.unit.criserver.spec.given import given


def _write(path: Path, node: Json) -> None:
    path.parent.mkdir(exist_ok=True)
    device = {"name": "d", "containerEdits": {"deviceNodes": [node]}}
    path.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": "v.com/c", "devices": [device]}))


def _device(spec: Json) -> Json:
    (device,) = cast(list[Json], cast(Json, spec["linux"])["devices"])
    return device


def test_device_values_are_read_from_the_node(tmp_path: Path) -> None:
    _write(tmp_path / "etc" / "v.json", {"path": "/dev/x", "hostPath": "/dev/null", "fileMode": 0o600, "uid": 5})
    (tmp_path / "etc" / "broken.yaml").write_text("a: [")
    (tmp_path / "etc" / "notes.txt").write_text("not read")
    device = _device(inject(build_container(given()), ["v.com/c=d"], [tmp_path / "etc", tmp_path / "missing"]))
    assert (device["path"], device["major"], device["minor"]) == ("/dev/x", 1, 3)
    assert (device["fileMode"], device["uid"]) == (0o600, 5)


def test_yaml_in_a_later_directory_wins(tmp_path: Path) -> None:
    _write(tmp_path / "etc" / "v.json", {"path": "/dev/x", "hostPath": "/dev/null"})
    _write(tmp_path / "run" / "v.yaml", {"path": "/dev/y", "hostPath": "/dev/zero"})
    device = _device(inject(build_container(given()), ["v.com/c=d"], [tmp_path / "etc", tmp_path / "run"]))
    assert (device["path"], device["minor"]) == ("/dev/y", 5)


def test_device_fully_described_in_the_file_need_not_exist(tmp_path: Path) -> None:
    _write(tmp_path / "etc" / "v.json", {"path": "/dev/not-there", "type": "c", "major": 250, "minor": 1})
    assert _device(inject(build_container(given()), ["v.com/c=d"], [tmp_path / "etc"]))["major"] == 250


def test_missing_device_is_named_in_the_error(tmp_path: Path) -> None:
    _write(tmp_path / "etc" / "v.json", {"path": "/dev/not-there"})
    with pytest.raises(NotFound, match="/dev/not-there"):
        inject(build_container(given()), ["v.com/c=d"], [tmp_path / "etc"])
    (tmp_path / "etc" / "broken.json").write_text("{")
    with pytest.raises(NotFound, match=r"v.com/c=e .*broken.json"):
        inject(build_container(given()), ["v.com/c=e"], [tmp_path / "etc"])
