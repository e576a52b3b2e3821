"""Records of a sandbox and of its container."""

from pykubelet.criserver.types import ContainerID, ContainerRecord, SandboxID, SandboxRecord
from pykubelet.pb import runtime_v1_pb2 as pb

POD = pb.PodSandboxConfig(hostname="web", labels={"a": "b"})
MAIN = pb.ContainerConfig(command=["sleep"])
SANDBOX = SandboxRecord(SandboxID("s1"), "web_default_u1_0", "runc", POD.SerializeToString(), 5)
CONTAINER = ContainerRecord(
    ContainerID("c1"), "app_0", SANDBOX.id, MAIN.SerializeToString(), 6, "sha256:1", "ref", "/log", "/cg", "SIGTERM"
)
