"""The API server as a source of pods."""

from pykubelet.apiclient.resources import PODS
from pykubelet.kubelet.desired.sources.api_source import ApiServerSource
from pykubelet.kubelet.desired.sources.mux import PodMux
from pykubelet.kubelet.types.updates import PodUpdate, Source
from pykubelet.models.core_v1 import Container, Pod, PodSpec
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.testing.fake_api.store import Place
from pykubelet.testing.wait import settle, until
from tests.unit.kubelet.apitools import fake_api, running


def pod(name: str) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="default"), spec=PodSpec(containers=(Container(name="c"),)))


async def test_the_pods_of_this_node_are_followed() -> None:
    reported: list[tuple[str, list[str]]] = []

    def sink(update: PodUpdate) -> None:
        reported.append((update.op.value, [each.metadata.name for each in update.pods]))

    async with fake_api() as api:
        api.put("pods", "other", spec={"nodeName": "other"})
        mux = PodMux(sources={Source.API}, sink=sink, clock=api.clock)
        first: list[bool] = []
        source = ApiServerSource(client=api.client, node_name="n", mux=mux, clock=api.clock)
        source.first_listed.subscribe(lambda: first.append(mux.all_ready()))
        async with running(source.run()):
            await until(mux.all_ready)
            assert reported == [("ADD", [])] and first == [True] and source.listed()
            api.put_pod(pod("a"))
            await until(lambda: reported[-1] == ("ADD", ["a"]))
            await api.client.delete(PODS.at("default", "a"), grace_seconds=5)
            await until(lambda: reported[-1] == ("DELETE", ["a"]))
            # An API server that is away takes no pod away; what changed meanwhile comes afterwards.
            await api.fake.go_away()
            await until(lambda: source.fault() is not None)
            await settle()
            assert reported[-1] == ("DELETE", ["a"])
            api.fake.store.delete(Place("/api/v1", "pods", "default", "a"), "", 0)
            await api.fake.serve_again()
            await until(lambda: reported[-1] == ("REMOVE", ["a"]))
            assert source.fault() is None
    assert first == [True] and {name for _, names in reported for name in names} == {"a"}
