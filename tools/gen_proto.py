#!/usr/bin/env python3
"""Generate src/pykubelet/pb from proto/*.proto; run it (``make gen``) after every edit of a .proto file.

Each file gives ``NAME_pb2.py`` and ``NAME_pb2.pyi``; a file with services gives ``NAME_pb2_grpc.py`` and
``.pyi`` as well. ``--check`` writes nothing and exits 1 if the files in the tree are not what would be generated.
Needs the dev extra (grpcio-tools, mypy-protobuf).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO_DIR = ROOT / "proto"
OUT_DIR = ROOT / "src" / "pykubelet" / "pb"
PACKAGE = "pykubelet.pb"

INIT = '''"""Message classes and gRPC stubs generated from proto/ by tools/gen_proto.py; never edited.

Import the modules themselves (``from pykubelet.pb import runtime_v1_pb2``): each costs memory, so take only
what is used.
"""
'''


class GenerationError(Exception):
    """protoc rejected a .proto file or is not installed."""


def generate(proto_dir: Path) -> dict[str, str]:
    """The generated files of all .proto files in a directory: file name to text."""
    protos = sorted(path.name for path in proto_dir.glob("*.proto"))
    modules = frozenset(f"{name.removesuffix('.proto')}_pb2" for name in protos)
    with tempfile.TemporaryDirectory() as tmp:
        _run_protoc(proto_dir, protos, Path(tmp))
        files = {path.name: path.read_text() for path in sorted(Path(tmp).iterdir())}
    files = {name: fix_imports(text, modules) for name, text in files.items() if _has_content(name, files)}
    files["__init__.py"] = INIT
    return files


def fix_imports(text: str, modules: frozenset[str]) -> str:
    """Make imports of sibling modules absolute: protoc writes them as if ``pb/`` were on the path."""

    def absolute(match: re.Match[str]) -> str:
        module = match["module"]
        return f"from {PACKAGE} import {module}{match['alias'] or ''}" if module in modules else match[0]

    return re.sub(r"^import (?P<module>\w+)(?P<alias> as \w+)?$", absolute, text, flags=re.MULTILINE)


def differences(files: dict[str, str], out_dir: Path) -> list[str]:
    """The differences of the directory from the generated files, one line each."""
    present = {path.name for path in out_dir.iterdir() if path.is_file()} if out_dir.is_dir() else set()
    missing = [f"missing: {name}" for name in files.keys() - present]
    surplus = [f"not generated from any .proto: {name}" for name in present - files.keys()]
    stale = [f"out of date: {name}" for name in files.keys() & present if (out_dir / name).read_text() != files[name]]
    return sorted(missing + surplus + stale)


def write(files: dict[str, str], out_dir: Path) -> None:
    """Make the directory contain exactly these files."""
    out_dir.mkdir(parents=True, exist_ok=True)
    for path in out_dir.iterdir():
        if path.is_file() and path.name not in files:
            path.unlink()
    for name, text in files.items():
        path = out_dir / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def _run_protoc(proto_dir: Path, protos: list[str], out: Path) -> None:
    scripts = Path(sys.executable).parent
    command = [
        *(sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={proto_dir}"),
        f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
        *(f"--python_out={out}", f"--mypy_out=quiet:{out}"),
        *(f"--grpc_python_out={out}", f"--mypy_grpc_out=quiet:{out}"),
        *protos,
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise GenerationError(f"protoc failed:\n{result.stderr.strip()}")


def _has_content(name: str, files: dict[str, str]) -> bool:
    """Whether a module is not empty: protoc writes a gRPC module even for a file without services."""
    return "_pb2_grpc." not in name or "Stub" in files[name.replace(".pyi", ".py")]


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 if anything differs")
    arguments = parser.parse_args(argv)
    try:
        files = generate(PROTO_DIR)
    except GenerationError as error:
        print(error, file=sys.stderr)
        return 1
    if not arguments.check:
        write(files, OUT_DIR)
        return 0
    wrong = differences(files, OUT_DIR)
    for line in wrong:
        print(f"{OUT_DIR.relative_to(ROOT)}: {line}", file=sys.stderr)
    if wrong:
        print("run `make gen` and commit the result", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
