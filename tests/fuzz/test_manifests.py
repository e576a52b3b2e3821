"""Manifests of arbitrary bytes, under any name, from files and from a URL: the sources never raise, every refusal is
reported with its file, and the pods of valid files stay desired.
"""

import asyncio
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.units import Seconds
from pykubelet.kubelet.desired.manifest import Manifest, parse
from pykubelet.kubelet.desired.manifest.manifest_types import MAX_PROBLEMS
from pykubelet.kubelet.desired.sources.backup import Backup
from pykubelet.kubelet.desired.sources.disk import read_changed
from pykubelet.kubelet.desired.sources.plan.effective_manifests import assemble
from pykubelet.kubelet.desired.sources.source_interfaces import Response
from pykubelet.kubelet.desired.sources.source_types import HttpSourceConfig, SourceContent
from pykubelet.kubelet.desired.sources.url_source import UrlSource
from pykubelet.kubelet.types.updates import Source
from pykubelet.models import codec
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.clock import VirtualClock

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
SEED: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "seed", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    "spec": {
        "activeDeadlineSeconds": 5,
        "containers": [
            {
                "name": "c",
                "image": "busybox",
                "command": ["sleep", "1"],
                "env": [{"name": "X", "value": "y"}],
                "resources": {"limits": {"cpu": "1", "memory": "64Mi"}},
                "ports": [{"containerPort": 80}],
                "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            }
        ],
        "volumes": [{"name": "v", "configMap": {"name": "m", "items": [{"key": "k", "path": "p"}]}}],
    },
}
MAP: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "v"}}
SECRET: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "v"}}
GOOD = json.dumps({**SEED, "metadata": {"name": "good"}}).encode()

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=10**18, max_value=10**400)
    | st.floats()
    | ANY_TEXT
    | st.sampled_from(["\ud800", "\x00", "1e9999", "0x", "=", "<<", "9" * 5000]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=6,
)


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [each for key, child in items for each in places(child, (*path, key))]


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    """An object with arbitrary values in some of its fields, or under additional keys."""
    value: dict[str, Any] = json.loads(json.dumps(draw(st.sampled_from([SEED, MAP, SECRET]))))
    for _ in range(draw(st.integers(1, 3))):
        *parents, last = draw(st.sampled_from(places(value)))
        target: Any = value
        for key in parents:
            target = target[key]
        if isinstance(target, dict) and draw(st.booleans()):
            last = draw(ANY_TEXT)
        target[last] = draw(VALUES)
    return value


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()  # escapes all characters that are not ASCII, also lone surrogates


class _QuotingDumper(yaml.SafeDumper):
    """Writes texts in quotes: Kubernetes reads some as numbers that PyYAML's YAML 1.1 takes for texts (08)."""


_QuotingDumper.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


def as_yaml(value: object) -> bytes:
    text: str = yaml.dump(value, Dumper=_QuotingDumper, allow_unicode=False)
    return text.encode("utf-8", "surrogatepass")


@st.composite
def around(draw: st.DrawFn, text: st.SearchStrategy[bytes]) -> bytes:
    """A text in another encoding, truncated, duplicated, nested, or with inserted bytes."""
    data = draw(text)
    match draw(st.integers(0, 6)):
        case 0:
            return data.decode("utf-8", "replace").encode(draw(st.sampled_from(["utf-16", "utf-32", "utf-8-sig"])))
        case 1:
            return data[: draw(st.integers(0, len(data)))]
        case 2:
            return data + b"\n---\n" + data
        case 3:
            at = draw(st.integers(0, len(data)))
            inserted = st.sampled_from(
                [b"&a ", b"*a", b"<<: ", b"!!binary ", b"!x ", b"\x00", b"\xff", b"\t", b"%YAML 9\n"]
            )
            return data[:at] + draw(inserted | st.binary(max_size=8)) + data[at:]
        case 4:
            depth = draw(st.sampled_from([10, 70, 2000]))
            return b'{"a": "\\ud83d\\ude00", "b": ' + b"[" * depth + data + b"]" * depth + b"}"
        case 5:
            return b'{"apiVersion": "v1", "kind": "List", "items": [' + data + b"]}"
    return data


TEXTS = around(objects().map(as_json) | objects().map(as_yaml)) | st.binary(max_size=200)
NAMES = st.binary(min_size=1, max_size=40).filter(lambda name: b"/" not in name and b"\0" not in name)


def check_problems(manifest: Manifest, origin: str) -> None:
    assert len(manifest.problems) <= MAX_PROBLEMS
    for problem in manifest.problems:
        assert problem.origin == origin
        assert problem.message
        assert "cannot be checked" not in problem.message, "our own code failed on it"
        str(problem).encode()
        assert str(problem).isprintable() or "\n" not in str(problem)


@given(TEXTS)
def test_parse_any_bytes_gives_sound_objects_or_problems(data: bytes) -> None:
    manifest = parse(data, "/m/f")
    check_problems(manifest, "/m/f")
    for item in manifest.objects:
        assert codec.decode(codec.encode(item.value), type(item.value)) == item.value
        str(item.key).encode()


@given(objects())
def test_json_and_yaml_of_an_object_are_parsed_alike(value: dict[str, Any]) -> None:
    """A lone surrogate has the same effect in JSON and YAML, or YAML cannot represent it."""
    given_json = parse(as_json(value), "/m/f")
    assert given_json.objects or given_json.problems
    if b"\\ud" not in as_json(value):
        assert bool(parse(as_yaml(value), "/m/f").objects) == bool(given_json.objects)


@given(st.dictionaries(NAMES, TEXTS, min_size=1, max_size=3))
def test_look_any_files_beside_a_good_one_keeps_the_good_one(files: dict[bytes, bytes]) -> None:
    with tempfile.TemporaryDirectory() as home:
        directory = Path(home, "manifests")
        directory.mkdir()
        (directory / "good.json").write_bytes(GOOD)
        backup, known = Backup(Path(home, "copies")), read_changed(directory, {}, frozenset(), None)
        for name, data in files.items():
            if name not in (b".", b"..", b"good.json"):
                Path(os.fsdecode(os.path.join(os.fsencode(directory), name))).write_bytes(data)  # noqa: PTH118 - bytes
        for records in (
            read_changed(directory, known, frozenset(), backup),
            read_changed(directory, {}, frozenset(), backup),
        ):
            content = assemble(records.values(), Source.FILE, "n")
            assert any(pod.metadata.name == "good-n" for pod in content.pods) or _other_good(content)
            assert len({pod.metadata.uid for pod in content.pods}) == len(content.pods)
            for state in content.states:
                state.origin.encode()
                for problem in state.problems:
                    assert problem.origin == state.origin
                    str(problem).encode()
            codec.encode(list(content.pods))


def _other_good(content: SourceContent) -> bool:
    """Another file, whose name sorts first, contains the same pod."""
    return any("is already given in" in str(problem) for state in content.states for problem in state.problems)


class Answers:
    """A server with given responses."""

    def __init__(self, bodies: list[tuple[int, bytes]]) -> None:
        self.bodies = bodies

    async def get(self, url: str, headers: tuple[tuple[str, str], ...], timeout: Seconds) -> Response:
        status, body = self.bodies.pop(0)
        return Response(status, body)

    async def close(self) -> None: ...


@given(st.lists(st.tuples(st.sampled_from([200, 200, 200, 304, 404, 500]), TEXTS), min_size=1, max_size=4))
def test_url_any_answers_keep_the_last_good_pod_until_a_good_answer(answers: list[tuple[int, bytes]]) -> None:
    delivered: list[SourceContent] = []
    config = HttpSourceConfig("http://u:p@host/\udcff", "n")

    async def ask() -> None:
        fetch = Answers([(200, GOOD), *answers])
        source = UrlSource(config=config, deliver=delivered.append, clock=VirtualClock(), fetch=fetch)
        for number in range(len(answers) + 1):
            await source.poll()
            content, status, body = delivered[-1], *([(200, GOOD), *answers][number])
            good = status == 200 and body and not parse(body, "u").problems
            if number and not good:
                assert content.states[0].problems or status == 304
            json.dumps([str(problem) for state in content.states for problem in state.problems]).encode()

    asyncio.run(ask())
    assert isinstance(delivered[0].pods[0], Pod)
