"""The generator of pykubelet/pb, and that what it made is in the tree."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools import gen_proto

MODULES = sorted(path.stem for path in gen_proto.OUT_DIR.glob("*_pb2*.py"))


def test_the_tree_holds_what_the_contracts_give() -> None:
    assert gen_proto.main(["--check"]) == 0


def test_modules_import_without_warnings_and_hold_no_path_of_a_machine() -> None:
    imports = "; ".join(f"import {gen_proto.PACKAGE}.{module}" for module in MODULES)
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", imports],
        env={"PYTHONPATH": str(gen_proto.ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert not [path for path in gen_proto.OUT_DIR.glob("*.py*") if str(gen_proto.ROOT) in path.read_text()]


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        ("import a_pb2 as a__pb2", "from pykubelet.pb import a_pb2 as a__pb2"),
        ("import a_pb2", "from pykubelet.pb import a_pb2"),
        ("import sys", "import sys"),
        ("import b_pb2 as b__pb2", "import b_pb2 as b__pb2"),
        ("from google.protobuf import any_pb2", "from google.protobuf import any_pb2"),
    ],
)
def test_imports_of_siblings_become_absolute(line: str, fixed: str) -> None:
    assert gen_proto.fix_imports(f"# head\n{line}\n", frozenset({"a_pb2"})) == f"# head\n{fixed}\n"


def test_a_contract_gives_messages_and_stubs_only_where_it_has_services(tmp_path: Path) -> None:
    (tmp_path / "plain.proto").write_text('syntax = "proto3"; message Pair { string left = 1; }')
    (tmp_path / "served.proto").write_text(
        'syntax = "proto3"; import "plain.proto"; service Echo { rpc Say(Pair) returns (Pair); }'
    )
    files = gen_proto.generate(tmp_path)
    assert sorted(files) == [
        "__init__.py",
        "plain_pb2.py",
        "plain_pb2.pyi",
        "served_pb2.py",
        "served_pb2.pyi",
        "served_pb2_grpc.py",
        "served_pb2_grpc.pyi",
    ]
    assert "from pykubelet.pb import plain_pb2" in files["served_pb2_grpc.py"]


def test_a_broken_contract_is_reported(tmp_path: Path) -> None:
    (tmp_path / "broken.proto").write_text("message")
    with pytest.raises(gen_proto.GenerationError, match=r"broken\.proto"):
        gen_proto.generate(tmp_path)


def test_differences_are_listed_and_writing_removes_them(tmp_path: Path) -> None:
    files = {"a.py": "new", "b.py": "same", "c.py": "only here"}
    (tmp_path / "a.py").write_text("old")
    (tmp_path / "b.py").write_text("same")
    (tmp_path / "old.py").write_text("left over")
    assert gen_proto.differences(files, tmp_path) == [
        "missing: c.py",
        "not generated from any .proto: old.py",
        "out of date: a.py",
    ]
    gen_proto.write(files, tmp_path)
    assert gen_proto.differences(files, tmp_path) == []
