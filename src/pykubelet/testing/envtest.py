"""A private pair of etcd and kube-apiserver on loopback, for tests that need the real API.

The programs are found as by controller-runtime's envtest: ``KUBEBUILDER_ASSETS`` names a directory with both, or
``TEST_ASSET_KUBE_APISERVER`` (and ``TEST_ASSET_ETCD``) name them one by one. No controllers run: a test that needs a
service account, a binding or a signed certificate creates it.
"""

import base64
import contextlib
import json
import os
import secrets
import shutil
import ssl
import subprocess
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pykubelet.base.errors import NotFound, Permanent
from pykubelet.testing.cluster_ca import ClusterAuthority, new_key
from pykubelet.testing.free_ports import free_port
from pykubelet.testing.traces import remove_files

_START_SECONDS = 90.0
_STOP_SECONDS = 20.0
ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Assets:
    """Paths of the programs."""

    apiserver: Path
    etcd: Path


def find_assets() -> Assets:
    """Find the programs; NotFound names the variable to set."""
    directory = os.environ.get("KUBEBUILDER_ASSETS", "")
    apiserver = os.environ.get("TEST_ASSET_KUBE_APISERVER") or (f"{directory}/kube-apiserver" if directory else "")
    etcd = os.environ.get("TEST_ASSET_ETCD") or (f"{directory}/etcd" if directory else "") or "etcd"
    if not apiserver or not Path(apiserver).is_file():
        raise NotFound("needs a kube-apiserver: set KUBEBUILDER_ASSETS to a directory with kube-apiserver and etcd")
    found = etcd if Path(etcd).is_file() else shutil.which("etcd")
    if not found:
        raise NotFound("needs etcd: apt-get install etcd-server")
    return Assets(Path(apiserver), Path(found))


@dataclass
class EnvTest:
    """One API server below one directory. Nodes authenticate by token, or by a certificate of the client CA."""

    home: Path
    nodes: tuple[str, ...] = ("testnode",)
    port: int = 0
    """Port of the API server; kept across restarts, so that clients can reconnect."""
    tokens: dict[str, str] = field(default_factory=dict)
    """Tokens by user name."""
    admission: tuple[str, ...] = ("NodeRestriction",)
    _etcd: "subprocess.Popen[bytes] | None" = None
    _apiserver: "subprocess.Popen[bytes] | None" = None
    _etcd_port: int = 0
    _authority: ClusterAuthority | None = None

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def authority(self) -> ClusterAuthority:
        """The authority of the API server's certificate and of the client certificates that it accepts."""
        assert self._authority is not None, "start it first"
        return self._authority

    def start(self) -> None:
        """Start etcd and the API server; returns when the API server is ready."""
        assets = find_assets()
        self.home.mkdir(parents=True, exist_ok=True)
        self._prepare()
        self._start_etcd(assets)
        self.start_apiserver()
        self._wait_ready()

    def start_apiserver(self, *, wait: bool = False) -> None:
        """Start or restart only the API server."""
        assets = find_assets()
        # Disabled: these plugins need objects that controllers create.
        disabled = ("ServiceAccount", "StorageObjectInUseProtection")
        command = [
            str(assets.apiserver),
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            *("--bind-address=127.0.0.1", f"--secure-port={self.port}", "--advertise-address=127.0.0.1"),
            f"--cert-dir={self.home}/certs",
            *(f"--tls-cert-file={self.home}/server.crt", f"--tls-private-key-file={self.home}/server.key"),
            f"--client-ca-file={self.home}/ca.crt",
            *(
                f"--kubelet-client-certificate={self.home}/kubelet-client.crt",
                f"--kubelet-client-key={self.home}/kubelet-client.key",
                "--kubelet-preferred-address-types=InternalIP",
            ),
            "--service-account-issuer=https://kubernetes.default.svc",
            *(
                f"--service-account-key-file={self.home}/sa.key",
                f"--service-account-signing-key-file={self.home}/sa.key",
            ),
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--token-auth-file={self.home}/tokens.csv",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            f"--disable-admission-plugins={','.join(disabled)}",
            f"--enable-admission-plugins={','.join(self.admission)}",
            *("--endpoint-reconciler-type=none", "--profiling=false", "--v=1"),
        ]
        with (self.home / "apiserver.log").open("ab") as log:
            self._apiserver = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        if wait:
            self._wait_ready()

    def stop_apiserver(self) -> None:
        """Kill only the API server, as a crash does."""
        _end(self._apiserver)
        self._apiserver = None

    def stop(self) -> None:
        """Stop etcd and the API server; the directory is kept."""
        self.stop_apiserver()
        _end(self._etcd)
        self._etcd = None

    def destroy(self) -> None:
        """Stop etcd and the API server and remove the directory."""
        self.stop()
        remove_files(self.home)

    def kubeconfig(self, user: str, path: Path | None = None) -> Path:
        """Write a kubeconfig of a user with a token; :data:`ADMIN` may do everything."""
        return self.write_kubeconfig(path or self.home / f"{user.replace(':', '-')}.conf", {"token": self.tokens[user]})

    def node_kubeconfig(self, node: str) -> Path:
        """Write the kubeconfig of a node."""
        return self.kubeconfig(f"system:node:{node}")

    def write_kubeconfig(self, path: Path, user: dict[str, Any]) -> Path:
        """Write a kubeconfig for this server with these credentials."""
        ca = base64.b64encode((self.home / "ca.crt").read_bytes()).decode()
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": self.url, "certificate-authority-data": ca}}],
            "users": [{"name": "it", "user": user}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        }
        path.write_text(json.dumps(document))
        path.chmod(0o600)
        return path

    def log_tail(self, size: int = 4000) -> str:
        """The end of the API server's log."""
        path = self.home / "apiserver.log"
        return path.read_text(errors="replace")[-size:] if path.exists() else "(no log)"

    # -- start of the programs

    def _prepare(self) -> None:
        self.port = self.port or free_port()
        self._authority = ClusterAuthority.make("envtest")
        (self.home / "ca.crt").write_bytes(self._authority.certificate_pem)
        key, certificate = self._authority.server(["127.0.0.1", "localhost", "kubernetes.default.svc"])
        (self.home / "server.crt").write_bytes(certificate)
        (self.home / "server.key").write_bytes(key)
        key, certificate = self._authority.client("kube-apiserver-kubelet-client", "system:masters")
        (self.home / "kubelet-client.crt").write_bytes(certificate)
        (self.home / "kubelet-client.key").write_bytes(key)
        (self.home / "sa.key").write_bytes(new_key())
        lines = [self._user(ADMIN, "system:masters")]
        lines += [self._user(f"system:node:{node}", "system:nodes") for node in self.nodes]
        lines.append(self._user("system:bootstrap:envtst", "system:bootstrappers"))
        lines += [self._user(name, "nothing") for name in ("outsider", "monitoring")]
        (self.home / "tokens.csv").write_text("\n".join(lines) + "\n")

    def _user(self, name: str, group: str) -> str:
        self.tokens.setdefault(name, secrets.token_hex(16))
        return f'{self.tokens[name]},{name},{name},"{group}"'

    def _start_etcd(self, assets: Assets) -> None:
        self._etcd_port, peer = free_port(), free_port()
        command = [
            str(assets.etcd),
            f"--data-dir={self.home}/etcd",
            f"--listen-client-urls=http://127.0.0.1:{self._etcd_port}",
            f"--advertise-client-urls=http://127.0.0.1:{self._etcd_port}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
            "--unsafe-no-fsync",
        ]
        with (self.home / "etcd.log").open("ab") as log:
            self._etcd = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _wait_ready(self) -> None:
        """Wait until the API server is ready and has made the namespace ``default``, which comes a moment later."""
        context = ssl.create_default_context(cafile=str(self.home / "ca.crt"))
        left = ["/readyz", "/api/v1/namespaces/default"]
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            for process in (self._etcd, self._apiserver):
                if process is None or process.poll() is not None:
                    raise Permanent(f"the API server ended at its start:\n{self.log_tail()}")
            request = urllib.request.Request(self.url + left[0])
            request.add_header("Authorization", f"Bearer {self.tokens[ADMIN]}")
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(request, timeout=5, context=context) as answer,
            ):
                if answer.status == 200:
                    del left[0]
                    if not left:
                        return
                    continue
            time.sleep(0.1)
        raise Permanent(f"the API server was not ready within {_START_SECONDS:.0f} s:\n{self.log_tail()}")


def _end(process: "subprocess.Popen[bytes] | None") -> None:
    if process is None:
        return
    process.kill()
    process.wait(timeout=_STOP_SECONDS)
