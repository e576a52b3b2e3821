"""Certificate requests of a node: found, and approved and signed as the controllers of a cluster do."""

import base64
from datetime import timedelta

from pykubelet.testing.agent import AgentProcess, wait_for
from pykubelet.testing.envtest import EnvTest
from pykubelet.testing.kubeapi import Json, KubeApi

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def pending(api: KubeApi, signer: str) -> Json | None:
    """A certificate request that is neither approved nor denied."""
    items = api.get(REQUESTS)["items"]
    return next((i for i in items if i["spec"]["signerName"] == signer and not i["status"]), None)


def sign(api: KubeApi, server: EnvTest, request: Json, life: timedelta = timedelta(days=1)) -> None:
    """Approve and sign a request, as the controllers do."""
    path = f"{REQUESTS}/{request['metadata']['name']}"
    condition = {"type": "Approved", "status": "True", "reason": "Test", "message": "by the test"}
    approved = api.call("PUT", f"{path}/approval", {**request, "status": {"conditions": [condition]}})
    certificate = server.authority.sign(base64.b64decode(request["spec"]["request"]), life)
    status = {**approved["status"], "certificate": base64.b64encode(certificate).decode()}
    api.call("PUT", f"{path}/status", {**approved, "status": status})


def wait_for_request(api: KubeApi, signer: str, agent: AgentProcess) -> Json:
    found: list[Json] = []

    def there() -> bool:
        request = pending(api, signer)
        found[:] = [request] if request else []
        return bool(found)

    wait_for(there, 40.0, agent.log_tail)
    return found[0]
