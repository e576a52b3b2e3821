"""The environment of containers."""

import pytest

from pykubelet.base.errors import NotFound, Transient
from pykubelet.kubelet.actuate.cri_messages.config_types import (
    ConfigError,
    ConfigReason,
    DownwardContext,
    EnvContext,
    EnvFile,
    EnvFileValues,
)
from pykubelet.kubelet.actuate.cri_messages.environment.env import container_environment, encode_value, env_files
from pykubelet.models.core_v1 import ConfigMap, Secret
from tests.unit.kubelet.actuate.cri_messages.build import Fields, make_container, make_pod


class Objects:
    """A ConfigMap ``cm`` and a Secret ``s`` in namespace ``shop``; ``flaky`` cannot be had now."""

    def __init__(self) -> None:
        self.config_map = ConfigMap(data={"b": "2", "a": "1", "file.conf": "x"})
        self.secret = Secret(data={"key": b"hush", "bin": b"\xff\x01", "nul": b"a\0b"})

    def get_config_map(self, namespace: str, name: str) -> ConfigMap:
        if name == "flaky":
            raise Transient("the objects have not been read yet")
        if (namespace, name) != ("shop", "cm"):
            raise NotFound("no such thing")
        return self.config_map

    def get_secret(self, namespace: str, name: str) -> Secret:
        if (namespace, name) != ("shop", "s"):
            raise NotFound("no such thing")
        return self.secret


CONTEXT = EnvContext(
    downward=DownwardContext(pod_ips=("10.0.0.5",), allocatable={"cpu": "2"}),
    objects=Objects(),
    services={"DB_SERVICE_HOST": "10.96.0.1", "A": "service"},
    files={
        EnvFile("vol", "dir/e.env"): EnvFileValues({"ONE": "1", "TWO": "two words", "EMPTY": ""}),
        EnvFile("vol", "bad"): EnvFileValues({}, "line 1: missing '='"),
    },
)


def environment(**fields: object) -> dict[str, str]:
    return container_environment(make_pod(), make_container(**fields), CONTEXT)


def key_ref(kind: str, **fields: object) -> list[Fields]:
    return [{"name": "V", "valueFrom": {kind: fields}}]


def test_values_are_expanded_in_order() -> None:
    env = environment(
        env=[
            {"name": "A", "value": "1"},
            {"name": "B", "value": "$(A)-$(LATER)-$$(A)-$(DB_SERVICE_HOST)"},
            {"name": "LATER", "value": "x"},
            {"name": "A", "value": "$(A)2"},
            {"name": "NOTHING"},
        ]
    )
    assert env == {
        "A": "12",
        "B": "1-$(LATER)-$(A)-10.96.0.1",
        "LATER": "x",
        "NOTHING": "",
        "DB_SERVICE_HOST": "10.96.0.1",
    }
    assert list(env) == ["A", "B", "LATER", "NOTHING", "DB_SERVICE_HOST"]


def test_a_variable_may_refer_to_a_services_one_of_its_own_name() -> None:
    assert environment(env=[{"name": "A", "value": "own and $(A)"}])["A"] == "own and service"


def test_env_from_adds_prefixed_keys_below_the_own_variables() -> None:
    env = environment(
        envFrom=[
            {"configMapRef": {"name": "cm"}},
            {"prefix": "P_", "configMapRef": {"name": "cm"}},
            {"configMapRef": {"name": "gone", "optional": True}},
            {"secretRef": {"name": "gone", "optional": True}},
            {"prefix": "nothing"},
        ],
        env=[{"name": "a", "value": "mine"}, {"name": "c", "value": "$(P_b)"}],
    )
    assert list(env.items())[:7] == [
        ("a", "mine"),
        ("b", "2"),
        ("file.conf", "x"),
        ("P_a", "1"),
        ("P_b", "2"),
        ("P_file.conf", "x"),
        ("c", "2"),
    ]


def test_later_sources_win() -> None:
    objects = Objects()
    objects.secret = Secret(data={"a": b"secret"})
    context = EnvContext(downward=DownwardContext(), objects=objects)
    container = make_container(envFrom=[{"configMapRef": {"name": "cm"}}, {"secretRef": {"name": "s"}}])
    assert container_environment(make_pod(), container, context)["a"] == "secret"


@pytest.mark.parametrize(
    ("env", "value"),
    [
        (key_ref("configMapKeyRef", name="cm", key="b"), "2"),
        (key_ref("secretKeyRef", name="s", key="key"), "hush"),
        (key_ref("fieldRef", fieldPath="status.podIP"), "10.0.0.5"),
        (key_ref("resourceFieldRef", resource="limits.cpu"), "2"),
        (key_ref("fileKeyRef", volumeName="vol", path="dir/e.env", key="TWO"), "two words"),
    ],
)
def test_variable_takes_the_value_of_its_source(env: list[Fields], value: str) -> None:
    assert environment(env=env)["V"] == value


@pytest.mark.parametrize(
    "env",
    [
        key_ref("configMapKeyRef", name="gone", key="b", optional=True),
        key_ref("configMapKeyRef", name="cm", key="gone", optional=True),
        key_ref("secretKeyRef", name="gone", key="b", optional=True),
        key_ref("secretKeyRef", name="s", key="gone", optional=True),
        key_ref("fileKeyRef", volumeName="vol", path="dir/e.env", key="EMPTY", optional=True),
        key_ref("fileKeyRef", volumeName="vol", path="gone", key="EMPTY", optional=True),
    ],
)
def test_optional_sources_leave_the_variable_out(env: list[Fields]) -> None:
    assert "V" not in environment(env=env)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"env": key_ref("configMapKeyRef", name="gone", key="b")}, 'configmap "gone" not found'),
        ({"env": key_ref("configMapKeyRef", name="cm", key="gone")}, "couldn't find key gone in ConfigMap shop/cm"),
        ({"env": key_ref("secretKeyRef", name="gone", key="b", optional=False)}, 'secret "gone" not found'),
        ({"env": key_ref("secretKeyRef", name="s", key="gone")}, "couldn't find key gone in Secret shop/s"),
        ({"envFrom": [{"configMapRef": {"name": "gone"}}]}, 'configmap "gone" not found'),
        ({"envFrom": [{"secretRef": {"name": "gone"}}]}, 'secret "gone" not found'),
        (
            {"env": key_ref("fileKeyRef", volumeName="vol", path="dir/e.env", key="GONE")},
            'environment variable key "GONE" not found in file "dir/e.env"',
        ),
        (
            {"env": key_ref("fileKeyRef", volumeName="vol", path="gone", key="K")},
            'cannot read the file "gone" of the volume "vol" referenced by FileKeyRef',
        ),
        (
            {"env": key_ref("fileKeyRef", volumeName="vol", path="bad", key="K")},
            'couldn\'t parse env file "bad" of volume "vol": line 1: missing \'=\'',
        ),
        ({"env": [{"name": "", "value": "x"}]}, '"" cannot be the name of an environment variable'),
        ({"env": [{"name": "A=B", "value": "x"}]}, '"A=B" cannot be the name of an environment variable'),
        (
            {"env": key_ref("secretKeyRef", name="s", key="nul")},
            'the value of environment variable "V" has a NUL byte; mount its source as a volume instead',
        ),
    ],
)
def test_missing_or_invalid_source_raises_with_its_name(fields: Fields, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        environment(**fields)
    assert caught.value.message == message
    assert caught.value.reason is ConfigReason.CREATE_CONTAINER_CONFIG


def test_other_trouble_of_the_reader_is_not_taken_for_missing() -> None:
    with pytest.raises(Transient):
        environment(env=key_ref("configMapKeyRef", name="flaky", key="b", optional=True))


def test_bytes_that_are_no_text_survive() -> None:
    value = environment(env=key_ref("secretKeyRef", name="s", key="bin"))["V"]
    assert encode_value(value) == b"\xff\x01"


def test_env_files_of_a_container_are_listed_once_each() -> None:
    container = make_container(
        env=[
            *key_ref("fileKeyRef", volumeName="v", path="p", key="A"),
            *key_ref("fileKeyRef", volumeName="v", path="p", key="B"),
            *key_ref("fileKeyRef", volumeName="v", path="q", key="B"),
            {"name": "X", "value": "1"},
        ]
    )
    assert env_files(container) == {EnvFile("v", "p"): {"A", "B"}, EnvFile("v", "q"): {"B"}}


def test_variables_that_double_each_other_end_before_they_fill_the_memory() -> None:
    """A pod of 2 KiB with forty of them would take 16 TiB, at each start of the agent again."""
    doubling = [{"name": f"V{number}", "value": f"$(V{number - 1})" * 2} for number in range(1, 25)]
    with pytest.raises(ConfigError, match="6291456 characters"):
        environment(env=[{"name": "V0", "value": "0123456789"}, *doubling])


@pytest.mark.parametrize("source", ["env", "envFrom"])
def test_large_value_that_is_named_often_is_refused(source: str) -> None:
    objects = Objects()
    objects.config_map = ConfigMap(data={"b": "x" * 1_000_000})
    context = EnvContext(downward=DownwardContext(), objects=objects)
    ref = {"name": "cm"}
    fields: Fields = {"envFrom": [{"prefix": f"P{number}", "configMapRef": ref} for number in range(10)]}
    if source == "env":
        fields = {
            "env": [
                {"name": f"V{number}", "valueFrom": {"configMapKeyRef": {**ref, "key": "b"}}} for number in range(10)
            ]
        }
    with pytest.raises(ConfigError, match="have more than 6291456 characters, which no process can have"):
        container_environment(make_pod(), make_container(**fields), context)
