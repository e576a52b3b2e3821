from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.serve.common.plan.request_target import check_target


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/pods",
        "/pods/",
        "/metrics/cadvisor",
        "/exec/ns/web/app?command=a%2fb&command=//..&output=1",
        "/logs/pods/a%20b.log",
        "/logs/caf%C3%A9",
        "/logs/caf%c3%a9",
        "/logs/a:b@c,d;e=f",
        "/logs/a%3Ab",
        "/logs/...",
        "/logs/100%25",
    ],
)
def test_target_in_normal_form_is_accepted(target: str) -> None:
    check_target(target)


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        ("/%65xec/ns/web/app", "%65, the encoding of 'e'"),
        ("/ex%45c/ns/web/app", "%45, the encoding of 'E'"),
        ("/logs/%2e%2e/exec", "%2e, the encoding of '.'"),
        ("/%2Fpods", "encoded slash"),
        ("/x%2fpods", "encoded slash"),
        ("/x%5Cpods", "encoded slash"),
        ("/pods%00", "control character"),
        ("/pods%0d%0aX:", "control character"),
        ("/pods%7F", "control character"),
        ("/pods%", "two hexadecimal digits"),
        ("/pods%6", "two hexadecimal digits"),
        ("/pods%zz", "two hexadecimal digits"),
        ("//pods", "empty segment"),
        ("/metrics//cadvisor", "empty segment"),
        ("/pods//", "empty segment"),
        ("/./pods", "dot segment"),
        ("/pods/.", "dot segment"),
        ("/pods/../exec/ns/web/app", "dot segment"),
        ("/pods/..", "dot segment"),
        ("/pods#x", "must be percent-encoded"),
        ("/caf\u00e9", "must be percent-encoded"),
        ("/caf\udcc3", "must be percent-encoded"),
        ("/a\\b", "must be percent-encoded"),
        ("/a b", "must be percent-encoded"),
        ("http://node/pods", "does not begin with a slash"),
        ("*", "does not begin with a slash"),
        ("", "does not begin with a slash"),
    ],
)
def test_target_with_another_spelling_is_refused_with_the_reason(target: str, fault: str) -> None:
    with pytest.raises(Invalid, match="normal form") as caught:
        check_target(target)
    assert fault in str(caught.value)
    assert str(caught.value).isascii()


@pytest.mark.parametrize("query", ["command=caf\u00e9", "command=\udcff", "a=\x00", "a=\x7f", "a=b\tc"])
def test_query_with_stray_bytes_is_refused(query: str) -> None:
    with pytest.raises(Invalid, match="query"):
        check_target(f"/exec/ns/web/app?{query}")


def test_long_target_is_shown_shortened() -> None:
    with pytest.raises(Invalid) as caught:
        check_target("/" + "x" * 100_000 + "%00")
    assert len(str(caught.value)) < 1000


_PIECES = st.sampled_from(
    ["/", "//", ".", "..", "e", "exec", "pods", "%65", "%2e", "%2F", "%5c", "%25", "%00", "%C3%A9"]
)


@given(st.lists(_PIECES | st.text(max_size=3), max_size=8).map(lambda pieces: "/" + "".join(pieces)))
def test_accepted_target_has_one_spelling_only(target: str) -> None:
    """Decoding an accepted path changes no segment, so no other spelling matches a route."""
    path = target.partition("?")[0]
    try:
        check_target(target)
    except Invalid:
        return
    decoded = unquote(path)
    assert decoded.split("/") == [unquote(segment) for segment in path.split("/")]
    for written, read in zip(path.split("/"), decoded.split("/"), strict=True):
        assert read not in (".", "..")
        assert written == read or not (read.isascii() and read.isalnum())
    assert "//" not in decoded
