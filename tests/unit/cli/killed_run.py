"""A command that puts objects into a manifest directory as run-once does, and is killed before it removes them."""

import os
import signal
import sys
from pathlib import Path

from pykubelet.cli.changes.run_records import RunRecord
from pykubelet.kubelet.desired.changes import ManifestDirectory
from pykubelet.kubelet.desired.manifest import ManifestObject, parse

MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {k: v}\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: job}\nspec: {containers: [{name: a, image: i}]}\n"


def manifest_directory(path: Path) -> ManifestDirectory:
    return ManifestDirectory(path=path, node_name="n1", kept={})


def item(text: str) -> ManifestObject:
    return parse(text.encode(), "given").objects[0]


def put(directory: ManifestDirectory, *texts: str) -> RunRecord:
    with directory.locked():
        record = RunRecord(directory, [item(text) for text in texts])
        for text in texts:
            directory.apply(item(text), text)
    return record


if __name__ == "__main__":
    record = put(manifest_directory(Path(sys.argv[1])), MAP, POD)
    os.kill(os.getpid(), signal.SIGKILL)
