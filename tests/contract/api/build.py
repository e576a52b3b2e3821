"""Objects that the contract of an API server is tested with."""

from pykubelet.apiclient import ApiClient
from pykubelet.apiclient.resources import PODS, Resource
from pykubelet.models.core_v1 import Binding, ConfigMap, Container, ObjectReference, Pod, PodSpec
from pykubelet.models.meta_v1 import ObjectMeta, Status

BINDINGS = Resource("/api/v1", "pods", Status)


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(api_version="v1", kind="ConfigMap", metadata=ObjectMeta(name=name), data=data)


def pod(name: str) -> Pod:
    spec = PodSpec(containers=(Container(name="c", image="i"),), service_account_name="robot")
    return Pod(api_version="v1", kind="Pod", metadata=ObjectMeta(name=name), spec=spec)


async def bound(client: ApiClient, name: str, node: str = "n1") -> Pod:
    await client.create(PODS.all("default"), pod(name))
    target = ObjectReference(api_version="v1", kind="Node", name=node)
    binding = Binding(api_version="v1", kind="Binding", metadata=ObjectMeta(name=name), target=target)
    await client.create(BINDINGS.at("default", name, "binding"), binding)
    return await client.get(PODS.at("default", name))
