"""Reading and checking a file, whatever stands at the path."""

import os
import socket
from pathlib import Path

import pytest

from pykubelet.kubelet.desired.manifest.manifest_types import MAX_BYTES
from pykubelet.kubelet.desired.manifest_file import check_file

GOOD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


def test_valid_file_is_ok(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(GOOD)
    result = check_file(file)
    assert result.problems == ()
    assert [str(item.key) for item in result.objects] == ["ConfigMap default/a"]
    link = tmp_path / "link.yaml"
    link.symlink_to(file)
    assert check_file(str(link)).problems == ()


def test_invalid_file_has_problems(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(GOOD + "dataa: {}\n")
    result = check_file(file)
    assert [str(problem) for problem in result.problems] == [
        f"{file}:4:1: ConfigMap default/a: dataa: unknown field; did you mean data?"
    ]


@pytest.mark.parametrize(("content", "message"), [("", "holds no object"), ("# nothing\n", "holds no object")])
def test_empty_file_is_a_problem(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(content)
    assert [problem.message for problem in check_file(file).problems] == [message]


def test_empty_list_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("{apiVersion: v1, kind: List, items: []}")
    assert check_file(file).problems


def test_path_that_is_no_regular_file_is_a_problem(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    sock = tmp_path / "sock"
    dangling = tmp_path / "dangling"
    dangling.symlink_to("nowhere")
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(sock))
        expected = {
            tmp_path: "is a directory, not a regular file",
            fifo: "is a pipe, socket or device, not a regular file",
            Path("/dev/zero"): "is a pipe, socket or device, not a regular file",
            dangling: "the file does not exist",
            tmp_path / "missing": "the file does not exist",
            tmp_path / "a\0b": "cannot be read: the path contains a NUL character",
            sock: "cannot be read: No such device or address",
            loop: "cannot be read: Too many levels of symbolic links",
        }
        for path, message in expected.items():
            assert [problem.message for problem in check_file(path).problems] == [message]


def test_file_above_the_limit_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    with file.open("wb") as out:
        out.truncate(MAX_BYTES + 1)
    assert [problem.message for problem in check_file(file).problems] == ["is larger than 10 MiB"]
