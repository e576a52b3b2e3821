import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kubelet.serve.kubelet_api.plan.attributes import request_attributes


@pytest.mark.parametrize(
    ("method", "path", "verb", "subresources"),
    [
        ("GET", "/pods", "get", ("pods", "proxy")),
        ("GET", "/pods/", "get", ("pods", "proxy")),
        ("GET", "/podsx", "get", ("proxy",)),
        ("GET", "/runningpods/", "get", ("pods", "proxy")),
        ("GET", "/healthz", "get", ("healthz", "proxy")),
        ("GET", "/healthz/syncloop", "get", ("healthz", "proxy")),
        ("GET", "/configz", "get", ("configz", "proxy")),
        ("GET", "/flagz", "get", ("configz",)),
        ("GET", "/statusz", "get", ("statusz",)),
        ("GET", "/stats/summary", "get", ("stats",)),
        ("GET", "/metrics", "get", ("metrics",)),
        ("GET", "/metrics/cadvisor", "get", ("metrics",)),
        ("GET", "/metricsx", "get", ("proxy",)),
        ("GET", "/logs/", "get", ("log",)),
        ("POST", "/checkpoint/ns/pod/c", "create", ("checkpoint",)),
        ("GET", "/containerLogs/ns/pod/c", "get", ("proxy",)),
        ("POST", "/exec/ns/pod/c", "create", ("proxy",)),
        ("GET", "/", "get", ("proxy",)),
        ("PUT", "/debug/flags/v", "update", ("proxy",)),
        ("PATCH", "/pods", "patch", ("pods", "proxy")),
        ("DELETE", "/pods", "delete", ("pods", "proxy")),
        ("BREW", "/pods", "", ("pods", "proxy")),
    ],
)
def test_method_and_path_say_what_is_needed(method: str, path: str, verb: str, subresources: tuple[str, ...]) -> None:
    found = request_attributes(method, path)
    assert (found.verb, found.subresources) == (verb, subresources)


@pytest.mark.parametrize("root", ["exec", "attach", "portForward", "run"])
def test_a_get_that_runs_something_needs_more_than_get(root: str) -> None:
    """Over WebSocket these come as GET: reading the node must not be enough."""
    assert request_attributes("GET", f"/{root}/ns/pod/container").verb == "create"


@given(st.sampled_from(["GET", "POST", "PUT", "OPTIONS"]), st.text(max_size=40))
def test_whatever_is_not_known_needs_proxy(method: str, rest: str) -> None:
    assert request_attributes(method, "/x" + rest).subresources == ("proxy",)
