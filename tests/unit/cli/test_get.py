"""``get`` for given answers of the local API: forms of names and of output, namespaces, watches."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from pykubelet.base.errors import NotFound
from pykubelet.cli.app import cli
from pykubelet.cli.commands.pods import get

NODE = "n1"


def pod(name: str, namespace: str = "default", phase: str = "Running", **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{name}-{NODE}", "namespace": namespace, "uid": f"uid-{namespace}-{name}"},
        "spec": {"nodeName": NODE, "containers": [{"name": "app", "image": "i"}]},
        "status": {"phase": phase, "podIP": "10.0.0.1", **status},
    }


def waiting(reason: str) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": "the cause"}}
    return {"containerStatuses": [{"name": "app", "ready": False, "restartCount": 0, "state": state}]}


SECRET = {
    "kind": "Secret",
    "metadata": {"name": "key", "namespace": "default"},
    "type": "Opaque",
    "data": {"password": base64.b64encode(b"hidden").decode()},
}
PROBLEM = {"subject": "/m/bad.yaml", "reason": "FailedValidation", "message": "/m/bad.yaml:6:3: spec: wrong; fix it"}


class FakeApi:
    """The answers by path, and the events of a watch."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Any]] = {
            "/api/v1/pods": [pod("web"), pod("db", "apart"), pod("twin"), pod("twin", "apart")],
            "/api/v1/configmaps": [{"metadata": {"name": "c", "namespace": "default"}, "data": {"k": "v"}}],
            "/api/v1/secrets": [SECRET],
            "/api/v1/nodes": [{"metadata": {"name": NODE}, "status": {}}],
            "/api/v1/events": [],
            "/pykubelet/v1/problems": [],
            "/pykubelet/v1/images": [{"id": "sha256:abc", "repoTags": ["a:1"], "size": 5}],
        }
        self.waits: dict[str, list[Any]] = {}
        """Waits of pods in the answers to ``explain``, by namespace and name."""
        self.queries: list[dict[str, object]] = []
        self.events: list[tuple[str, Any]] = []

    def get(self, path: str, **query: object) -> Any:
        if path.startswith("/pykubelet/v1/explain/"):
            waits = self.waits.get(path.removeprefix("/pykubelet/v1/explain/"))
            if waits is None:
                raise NotFound("no such pod")
            return {"waits": waits}
        self.queries.append({key: value for key, value in query.items() if value})
        if "/namespaces/" in path:
            _, _, rest = path.partition("/namespaces/")
            namespace, _, kind = rest.partition("/")
            items = [i for i in self.answers[f"/api/v1/{kind}"] if i["metadata"]["namespace"] == namespace]
        else:
            items = self.answers[path]
        return {"metadata": {"resourceVersion": "7"}, "items": items}

    def watch(self, path: str, **query: object) -> Iterator[tuple[str, Any]]:
        assert query["resourceVersion"] == "7"
        yield from self.events


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    made = FakeApi()
    monkeypatch.setattr(get, "api_of", lambda _: made)
    return made


def run(*arguments: str, status: int = 0) -> Result:
    done = CliRunner().invoke(cli, ["get", *arguments])
    assert (done.exit_code, done.exception if status == 0 else None) == (status, None), done.output
    return done


def lines(*arguments: str) -> list[list[str]]:
    return [line.split() for line in run(*arguments).stdout.splitlines()]


def test_pods_of_all_or_of_one_namespace_are_listed(api: FakeApi) -> None:
    assert [row[:2] for row in lines("pods")][:3] == [["NAMESPACE", "NAME"], ["default", "web-n1"], ["apart", "db-n1"]]
    assert [row[0] for row in lines("pods", "-n", "apart")] == ["NAME", "db-n1", "twin-n1"]
    assert lines("pods", "-A", "-n", "apart") == lines("pods")
    assert lines("cm", "-n", "apart") == []
    assert lines("no")[0][0] == "NAME"


def test_names_of_several_kinds_are_printed_in_their_order(api: FakeApi) -> None:
    for words in (("pods", "web", "db"), ("pod/web", "po/db-n1")):
        assert run(*words, "-o", "name").stdout == "pod/web-n1\npod/db-n1\n"
    assert run("pod/web", "secret/key", "-o", "name").stdout == "pod/web-n1\nsecret/key\n"
    assert run("pods,cm", "-n", "default", "-o", "name").stdout == "pod/web-n1\npod/twin-n1\nconfigmap/c\n"
    assert run("images", "a:1", "-o", "name").stdout == "image/a:1\n"
    table = run("pod/web", "cm/c").stdout
    assert "pod/web-n1" in table and "configmap/c" in table and "\n\n" in table


def test_names_that_do_not_exist(api: FakeApi) -> None:
    done = CliRunner().invoke(cli, ["get", "pods", "web", "wep", "zzz"])
    assert "web-n1" in done.stdout
    assert str(done.exception) == (
        "pod 'wep' not found; did you mean web?\npod 'zzz' not found; existing pods: web, db, twin, twin"
    )
    assert run("pods", "zzz", "--ignore-not-found").stdout == ""
    several = CliRunner().invoke(cli, ["get", "pod", "twin"])
    assert "several namespaces (default, apart); choose one with -n" in str(several.exception)
    assert run("pod", "twin", "-n", "apart", "-o", "name").stdout == "pod/twin-n1\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("podz",), "did you mean pod?"),
        (("pod/web", "db"), "every object has to be written like this"),
        (("pods", "pod/web"), "either pods NAME"),
        (("pods", "-o", "yml"), "did you mean yaml?"),
        (("pods", "-o", "jsonpath"), "write jsonpath="),
        (("pods", "-o", "json=x"), "json takes no argument"),
        (("pods", "web", "-l", "a=b"), "name objects, or select them"),
        (("images", "-l", "a=b"), "cannot be selected"),
        (("secrets", "-w"), "watch one kind"),
    ],
)
def test_get_with_wrong_words_exits_with_a_usage_error(api: FakeApi, words: tuple[str, ...], message: str) -> None:
    assert message in run(*words, status=2).stderr


def test_selectors_are_passed_on(api: FakeApi) -> None:
    run("pods", "-l", "app=web", "--field-selector", "status.phase=Running")
    assert {"labelSelector": "app=web", "fieldSelector": "status.phase=Running"} in api.queries


def test_documents_are_one_object_or_a_list(api: FakeApi) -> None:
    assert json.loads(run("pod", "web", "-o", "json").stdout)["kind"] == "Pod"
    many = yaml.safe_load(run("pods", "-o", "yaml").stdout)
    assert (many["kind"], len(many["items"])) == ("List", 4)
    assert json.loads(run("pods,secrets", "-o", "json").stdout)["items"][-1] == SECRET
    api.answers["/api/v1/pods"] = []
    assert json.loads(run("pods", "-o", "json").stdout)["items"] == []


def test_templates_print_chosen_fields(api: FakeApi) -> None:
    assert run("pod", "web", "-o", "jsonpath={.status.podIP}").stdout == "10.0.0.1"
    assert run("pods", "-o", "jsonpath={.items[*].metadata.namespace}").stdout == "default apart default apart"
    columns = "custom-columns=N:.metadata.name,P:.status.phase,X:.no"
    assert lines("pods", "-o", columns, "--sort-by", ".metadata.name") == [
        ["N", "P", "X"],
        *([name, "Running", "<none>"] for name in ("db-n1", "twin-n1", "twin-n1", "web-n1")),
    ]
    assert lines("pod", "web", "-o", columns, "--no-headers") == [["web-n1", "Running", "<none>"]]


def test_no_headers_flag_leaves_out_the_headings(api: FakeApi) -> None:
    assert [row[1] for row in lines("pods", "--no-headers")] == ["web-n1", "db-n1", "twin-n1", "twin-n1"]


def test_tables_of_secrets_show_sizes_only(api: FakeApi) -> None:
    assert lines("secrets", "-n", "default", "-o", "wide") == [
        ["NAME", "TYPE", "DATA", "KEYS"],
        ["key", "Opaque", "1", "password", "6B"],
    ]
    assert "hidden" not in run("secrets", "-o", "wide").stdout


def test_empty_namespace_is_named(api: FakeApi) -> None:
    assert run("pods", "-n", "none").stderr == "no pods found in namespace none\n"
    api.answers["/api/v1/nodes"] = []
    assert run("nodes", "-n", "none").stderr == "no nodes found\n"


def test_problems_are_listed_and_announced_on_a_banner(api: FakeApi) -> None:
    assert run("problems").stderr == "no problems found\n"
    assert run("pods").stderr == ""
    api.answers["/pykubelet/v1/problems"] = [PROBLEM]
    api.answers["/api/v1/pods"] = [pod("ill", **waiting("ErrImagePull")), pod("ok", **waiting("ContainerCreating"))]
    table = run("problems").stdout
    assert ["/m/bad.yaml:6:3", "FailedValidation", "spec:", "wrong;", "fix", "it"] in lines("problems")
    assert "pod default/ill-n1" in table and "container app: the cause" in table and "ok-n1" not in table
    done = run("pods")
    assert done.stderr == f"1 problem: {PROBLEM['message']} (see `pykubelet get problems`)\n"
    assert run("pods", "-o", "name").stderr == ""
    api.answers["/pykubelet/v1/problems"] = [PROBLEM, PROBLEM]
    assert run("pods").stderr.startswith("2 problems, the first: ")


def test_problems_contain_what_pods_wait_for_without_a_reason_in_their_status(api: FakeApi) -> None:
    creating = waiting("ContainerCreating")
    unready: dict[str, Any] = {"containerStatuses": [{"name": "app", "ready": False}]}
    api.answers["/api/v1/pods"] = [
        pod("unmounted", **creating),
        pod("unhealthy", **unready),
        pod("starting", **creating),
        pod("gone", **creating),
        pod("done", phase="Succeeded", **unready),
    ]
    probe = {"kind": "probe", "subject": "app", "reason": "readiness probe failed", "times": 3}
    api.waits = {
        "default/unmounted-n1": [{"kind": "volumes", "reason": "FailedMount", "message": "no ConfigMap"}],
        "default/unhealthy-n1": [{**probe, "message": "HTTP 404"}],
        "default/starting-n1": [
            {"kind": "pull", "subject": "app", "reason": "in progress", "message": "image:1"},
            {**probe, "reason": "readiness probe has not run yet", "times": 0},
        ],
        "default/done-n1": [{"kind": "volumes", "reason": "FailedMount", "message": "nothing asks for this"}],
    }
    assert json.loads(run("problems", "-o", "json").stdout)["items"] == [
        {"subject": "pod default/unmounted-n1", "reason": "FailedMount", "message": "no ConfigMap"},
        {
            "subject": "pod default/unhealthy-n1",
            "reason": "Unhealthy",
            "message": "container app: readiness probe failed: HTTP 404",
        },
    ]


def test_a_watch_prints_a_row_for_each_visible_change(api: FakeApi) -> None:
    gone = pod("web")
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    changed = {**gone, "metadata": {**gone["metadata"], "resourceVersion": "9"}}
    api.answers["/api/v1/pods"] = [pod("web")]
    new = pod("new", phase="Pending", **waiting("ContainerCreating"))
    api.events = [("ADDED", new), ("MODIFIED", gone), ("MODIFIED", changed), ("DELETED", changed)]
    output = run("pods", "-w", "-n", "default").stdout.splitlines()
    assert [line.split()[2] for line in output] == [
        *("STATUS", "Running", "ContainerCreating", "Terminating", "Deleted")
    ]
    at = output[0].index("STATUS")
    assert all(line[at - 1] == " " and line[at] != " " for line in output)
    only = run("pods", "-n", "default", "--watch-only").stdout.splitlines()
    assert [line.split()[2] for line in only] == ["STATUS", "ContainerCreating", "Terminating", "Deleted"]


def test_a_watch_of_named_pods_and_of_documents(api: FakeApi) -> None:
    api.answers["/api/v1/pods"] = [pod("web")]
    api.events = [("MODIFIED", pod("db")), ("MODIFIED", pod("web", phase="Failed"))]
    assert run("pod", "web", "-w", "-o", "jsonpath={.status.phase} ").stdout == "Running Failed "
    assert run("pods", "-w", "-o", "name").stdout.split() == ["pod/web-n1", "pod/db-n1", "pod/web-n1"]
