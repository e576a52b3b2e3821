import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.kubelet.serve.kubelet_api.plan.targets import check_container, command_options, running_container
from pykubelet.kubelet.serve.streams import StreamOptions
from pykubelet.models import core_v1 as core
from tests.unit.kubelet.report.pods import pod
from tests.unit.kubelet.serve.local_api.world import running


def test_a_running_container_has_an_id() -> None:
    value = replace(pod(), status=running())
    assert running_container(value, "app")
    check_container(value, "app")


@pytest.mark.parametrize("name", ["nope", ""])
def test_a_container_that_the_pod_does_not_have_is_not_found(name: str) -> None:
    with pytest.raises(NotFound, match="not found in pod"):
        running_container(replace(pod(), status=running()), name)


def test_a_container_that_does_not_run_is_not_found() -> None:
    with pytest.raises(NotFound, match='container not found \\("app"\\)'):
        running_container(replace(pod(), status=core.PodStatus(phase="Pending")), "app")


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ({"output": "1"}, StreamOptions("app", ("ls",), stdout=True)),
        ({"input": "1", "output": "1", "error": "true"}, StreamOptions("app", ("ls",), True, True, True)),
        ({"output": "1", "error": "1", "tty": "1"}, StreamOptions("app", ("ls",), stdout=True, tty=True)),
    ],
)
def test_options_have_the_names_that_the_api_server_uses(query: dict[str, str], options: StreamOptions) -> None:
    assert command_options(query, "app", ["ls"]) == options


def test_a_command_and_a_stream_are_needed() -> None:
    with pytest.raises(Invalid, match="command"):
        command_options({"output": "1"}, "app", [])
    with pytest.raises(Invalid, match="at least 1 of stdin, stdout, stderr"):
        command_options({}, "app", None)
    assert command_options({"output": "1"}, "app", None).command == ()
