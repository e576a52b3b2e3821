"""The store of ConfigMaps and Secrets, and which of them a pod uses."""

import pytest

from pykubelet.base.errors import NotFound
from pykubelet.kubelet.desired.manifest import ObjectKey
from pykubelet.kubelet.desired.objects import LocalObjects, Objects, references
from pykubelet.kubelet.types.updates import Source
from pykubelet.models import codec
from pykubelet.models import core_v1 as core
from pykubelet.models.meta_v1 import ObjectMeta


def config_map(name: str, namespace: str = "default", **data: str) -> core.ConfigMap:
    return core.ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data)


def secret(name: str, namespace: str = "default") -> core.Secret:
    return core.Secret(metadata=ObjectMeta(name=name, namespace=namespace), data={"k": b"v"})


def key(kind: str, name: str, namespace: str = "default") -> ObjectKey:
    return ObjectKey(kind, namespace, name)


def test_objects_are_found_by_namespace_and_name() -> None:
    store = LocalObjects()
    store.replace(Source.FILE, [config_map("a", x="1"), config_map("a", "other", x="2"), secret("a")])
    objects: Objects = store
    assert objects.get_config_map("default", "a").data == {"x": "1"}
    assert objects.get_config_map("other", "a").data == {"x": "2"}
    assert objects.get_secret("default", "a").data == {"k": b"v"}
    assert set(store.keys()) == {key("ConfigMap", "a"), key("ConfigMap", "a", "other"), key("Secret", "a")}


def test_missing_object_is_reported_with_a_remedy() -> None:
    store = LocalObjects()
    store.replace(Source.FILE, [config_map("a", "other")])
    with pytest.raises(NotFound, match="secret 'a' not found in namespace 'default': put a Secret of that name"):
        store.get_secret("default", "a")
    with pytest.raises(NotFound, match="there is one in namespace 'other'"):
        store.get_config_map("default", "a")


def test_subscribers_receive_exactly_the_differences() -> None:
    store = LocalObjects()
    heard: list[frozenset[ObjectKey]] = []
    end = store.subscribe(heard.append)
    store.replace(Source.FILE, [config_map("a", x="1"), config_map("b"), secret("s")])
    store.replace(Source.FILE, [config_map("a", x="1"), config_map("b"), secret("s")])
    store.replace(Source.FILE, [config_map("a", x="2"), config_map("c"), secret("s")])
    assert heard == [
        {key("ConfigMap", "a"), key("ConfigMap", "b"), key("Secret", "s")},
        {key("ConfigMap", "a"), key("ConfigMap", "b"), key("ConfigMap", "c")},
    ]
    end()
    end()
    store.replace(Source.FILE, [])
    assert len(heard) == 2


def test_a_subscriber_sees_the_new_state_and_may_end_itself() -> None:
    store = LocalObjects()
    seen: list[str] = []

    def look(changed: frozenset[ObjectKey]) -> None:
        seen.append(store.get_config_map("default", "a").data["x"])
        end()

    end = store.subscribe(look)
    store.replace(Source.FILE, [config_map("a", x="1")])
    store.replace(Source.FILE, [config_map("a", x="2")])
    assert seen == ["1"]


def test_file_takes_precedence_over_the_url() -> None:
    store = LocalObjects()
    heard: list[frozenset[ObjectKey]] = []
    store.replace(Source.FILE, [config_map("a", x="file")])
    store.subscribe(heard.append)
    store.replace(Source.HTTP, [config_map("a", x="url")])
    assert store.get_config_map("default", "a").data == {"x": "file"}
    assert heard == []
    store.replace(Source.FILE, [])
    assert store.get_config_map("default", "a").data == {"x": "url"}
    assert heard == [{key("ConfigMap", "a")}]


def test_references_of_a_pod_are_found_in_all_its_fields() -> None:
    text = b"""{"metadata": {"namespace": "ns"}, "spec": {
      "imagePullSecrets": [{"name": "pull"}, {}],
      "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "c1"}}, {"secretRef": {"name": "s1"}}]}],
      "containers": [{"name": "c", "env": [
         {"name": "a", "valueFrom": {"configMapKeyRef": {"name": "c2", "key": "k", "optional": true}}},
         {"name": "b", "valueFrom": {"secretKeyRef": {"name": "s2", "key": "k"}}},
         {"name": "c", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "d", "value": "v"}]}],
      "ephemeralContainers": [{"name": "e", "envFrom": [{"secretRef": {"name": "s3"}}]}],
      "volumes": [{"name": "1", "configMap": {"name": "c3"}}, {"name": "2", "secret": {"secretName": "s4"}},
        {"name": "3", "projected": {"sources": [{"configMap": {"name": "c4"}}, {"secret": {"name": "s5"}}, {}]}},
        {"name": "4", "emptyDir": {}}, {"name": "5", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s6"}}},
        {"name": "6", "iscsi": {"lun": 0, "secretRef": {"name": "s7"}}},
        {"name": "7", "azureFile": {"secretName": "s8"}}]}}"""
    found = references(codec.decode(text, core.Pod))
    assert {each.namespace for each in found} == {"ns"}
    assert {each.name for each in found if each.kind == "ConfigMap"} == {"c1", "c2", "c3", "c4"}
    secrets = {each.name for each in found if each.kind == "Secret"}
    assert secrets == {"pull", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"}


def test_a_pod_without_references() -> None:
    assert references(core.Pod()) == frozenset()
