"""The files of a sandbox that are copies of the node's."""

from pathlib import Path

import pytest

from pykubelet.base.errors import Transient
from pykubelet.criserver.sandbox.files import SandboxFiles
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.limits import no_descriptors


def test_resolv_conf_that_cannot_be_read_for_now_fails_the_sandbox(tmp_path: Path) -> None:
    """With an empty copy the pod would never resolve a name."""
    with no_descriptors(), pytest.raises(Transient, match=r"/etc/resolv\.conf cannot be read: Too many open files"):
        SandboxFiles(tmp_path).make(pb.PodSandboxConfig(), "web", None)
    assert list(tmp_path.iterdir()) == []
