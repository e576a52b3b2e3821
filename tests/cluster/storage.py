"""A CSI driver in a separate process, and the objects that a cluster's controllers would create for it."""

import json
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from pykubelet.testing.agent import environment, wait_for
from pykubelet.testing.kubeapi import Json
from pykubelet.testing.traces import remove_mounts
from tests.cluster.cluster_node import NODE, Cluster

DRIVER = "fake.csi"
STORAGE = "/apis/storage.k8s.io/v1"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"


class Storage:
    """The driver, and the objects that a cluster's controllers would create."""

    def __init__(self, cluster: Cluster, home: Path, driver: str = DRIVER, *flags: str) -> None:
        self.cluster = cluster
        self.home = home
        self.log = home / f"calls-{driver}"
        self.log.write_text("")
        command = [sys.executable, "-m", "pykubelet.testing.fake_csi", "--name", driver, *flags]
        command += ["--root", str(cluster.agent.root), "--data", str(home / "data"), "--log", str(self.log)]
        self.process = subprocess.Popen(command, env=environment())

    def end(self) -> None:
        """Stop the driver and unmount what it has mounted."""
        self.process.terminate()
        self.process.wait(timeout=20)
        remove_mounts(self.home)

    def calls(self, method: str) -> list[Json]:
        """Requests of a method so far."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [request for name, request in lines if name == method]

    def bind(self, name: str, size: str = "1Mi", **spec: object) -> None:
        """Create a claim ``NAME`` bound to a volume ``pv-NAME``."""
        api = self.cluster.api
        modes = ["ReadWriteOnce"]
        capacity = {"storage": size}
        claim = {"accessModes": modes, "resources": {"requests": capacity}, "volumeName": f"pv-{name}"}
        claim["storageClassName"] = ""
        meta = {"name": name}
        made = api.create(
            CLAIMS, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": claim}
        )
        reference = {"name": name, "namespace": "default", "uid": made["metadata"]["uid"]}
        volume = {"capacity": capacity, "accessModes": modes, "claimRef": reference, **spec}
        meta = {"name": f"pv-{name}"}
        api.create(VOLUMES, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": volume})
        api.merge(f"{CLAIMS}/{name}/status", {"status": {"phase": "Bound"}})

    def attach(self, *handles: str) -> None:
        """Act as the attach/detach controller and the driver's attacher, once the node reports that it waits."""
        api = self.cluster.api
        names = [f"kubernetes.io/csi/{DRIVER}^{handle}" for handle in handles]
        wait_for(lambda: set(names) <= set(self.status("volumesInUse")), 30.0, self.cluster.agent.log_tail)
        for handle in handles:
            self.attachment(handle, {"attached": True, "attachmentMetadata": {"device": "sdz"}})
        attached = {"volumesAttached": [{"name": name, "devicePath": ""} for name in names]}
        api.merge(f"/api/v1/nodes/{NODE}/status", {"status": attached})

    def attachment(self, handle: str, status: Json) -> None:
        """Act as the attach/detach controller, which creates a volume's attachment, and the attacher: its status."""
        api = self.cluster.api
        meta = {"name": f"csi-{sha256(f'{handle}{DRIVER}{NODE}'.encode()).hexdigest()}"}
        spec = {"attacher": DRIVER, "nodeName": NODE, "source": {"persistentVolumeName": "pv-data"}}
        attachments = f"{STORAGE}/volumeattachments"
        if api.find(f"{attachments}/{meta['name']}") is None:
            api.create(
                attachments,
                {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": meta, "spec": spec},
            )
        api.merge(f"{attachments}/{meta['name']}/status", {"status": status})

    def status(self, field: str) -> list[str]:
        node = self.cluster.api.node(NODE)
        assert node is not None
        return list(node["status"].get(field, ()))

    def until(self, condition: Callable[[], object]) -> None:
        wait_for(lambda: bool(condition()), 30.0, lambda: self.log.read_text() + self.cluster.agent.log_tail())
