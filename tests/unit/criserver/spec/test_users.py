"""Resolution of a container's user."""

import pytest
from hypothesis import given, strategies

from pykubelet.base.errors import Invalid
from pykubelet.criserver.spec.users import resolve_user
from pykubelet.criserver.types import ContainerUser
from pykubelet.pb import runtime_v1_pb2 as pb

PASSWD = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\n1001:x:7:7::/:/bin/sh\nbroken\n"
GROUP = "root:x:0:\nstaff:x:50:app,other\nteam:x:60:app\nlone:x:70:\n"
Context = pb.LinuxContainerSecurityContext


def _resolve(context: Context, image: str = "", passwd: str = PASSWD, group: str = GROUP) -> ContainerUser:
    return resolve_user(context, image, lambda: [passwd.encode()], lambda: [group.encode()])


@pytest.mark.parametrize(
    ("context", "image", "uid", "gid", "groups"),
    [
        (Context(), "", 0, 0, (0,)),
        (Context(), "app", 1000, 1001, (1001, 50, 60)),
        (Context(), "1000", 1000, 1001, (1001, 50, 60)),
        (Context(), "1001", 1001, 0, (0,)),
        (Context(), "app:lone", 1000, 70, (70, 50, 60)),
        (Context(), "4242:4343", 4242, 4343, (4343,)),
        (Context(run_as_user=pb.Int64Value(value=1000)), "root", 1000, 1001, (1001, 50, 60)),
        (Context(run_as_user=pb.Int64Value(value=5), run_as_group=pb.Int64Value(value=6)), "app:lone", 5, 6, (6,)),
        (Context(run_as_username="app"), "", 1000, 1001, (1001, 50, 60)),
        (Context(supplemental_groups=[9, 50]), "app", 1000, 1001, (1001, 9, 50, 60)),
        (Context(supplemental_groups=[9], supplemental_groups_policy=pb.Strict), "app", 1000, 1001, (1001, 9)),
    ],
)
def test_user_is_resolved(context: Context, image: str, uid: int, gid: int, groups: tuple[int, ...]) -> None:
    user = _resolve(context, image)
    assert (user.uid, user.gid, user.groups) == (uid, gid, groups)


@pytest.mark.parametrize(
    ("context", "image", "message"),
    [
        (Context(), "missing-user", "not in the image's /etc/passwd"),
        (Context(), "app:no-group", "not in the image's /etc/group"),
        (Context(), "4294967295", "out of range"),
        (Context(), "4294967296", "out of range"),
        (Context(), "-1", "out of range"),
        (Context(run_as_group=pb.Int64Value(value=6)), "", "needs run_as_user"),
        (Context(supplemental_groups=[2**32]), "", "out of range"),
    ],
)
def test_unknown_users_are_invalid(context: Context, image: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        _resolve(context, image)


@pytest.mark.parametrize("number", ["4294967295", "4294967296", "9" * 5000, "٣"])
def test_lines_with_invalid_ids_are_ignored(number: str) -> None:
    with pytest.raises(Invalid, match="not in the image's /etc/passwd"):
        _resolve(Context(), "evil", f"evil:x:{number}:0::/:\n")
    with pytest.raises(Invalid, match="not in the image's /etc/group"):
        _resolve(Context(), "0:evil", "", f"evil:x:{number}:\n")


@pytest.mark.parametrize("user", ["--5", "-" * 30 + "5", "5-", "+5", "1_0", "٣", "0x5", "²"])
def test_user_that_only_looks_like_a_number_is_a_name(user: str) -> None:
    with pytest.raises(Invalid, match="not in the image's /etc/passwd"):
        _resolve(Context(), user)


LINES = [
    ("# app:x:1:1::/:\n\t app:x:2:3::/home:/bin/sh \r\n", (2, 3, "/home")),
    ("xapp:x:1:1::/:\napp:x:2:3", (2, 3, "/")),
    ("app\napp:\napp:x\napp:x:2\napp:x:y:3\napp:x:02:003:a:/b", (2, 3, "/b")),
    ("a.p:x:9:9::/:\napp:x:2:3::", (2, 3, "/")),
    ("app:x:2:3::/one\napp:x:4:5::/two", (2, 3, "/one")),
]


@pytest.mark.parametrize(("passwd", "found"), LINES)
def test_first_valid_line_of_a_name_is_used(passwd: str, found: tuple[int, int, str]) -> None:
    user = _resolve(Context(), "app", passwd, "")
    assert (user.uid, user.gid, user.home) == found


@pytest.mark.parametrize(
    ("line", "member"),
    [
        ("g:x:50:app", True),
        ("g:x:50:other,app,third", True),
        ("g:x:50:other,app \r", True),
        ("g::50:app", True),
        ("g:x:50:apple", False),
        ("g:x:50:snapp", False),
        ("g:x:50:", False),
        ("app:x:50:", False),
        ("g:app:50:x", False),
        ("#g:x:50:app", False),
        ("g:x:-50:app", False),
        ("g:x:50:other:app", False),
        ("g:x:99999999999:app", False),
    ],
)
def test_memberships_of_a_group_line(line: str, member: bool) -> None:
    assert _resolve(Context(), "app", PASSWD, f"first:x:1:\n{line}\nlast:x:2:").groups == (1001, *([50] * member))


def test_names_that_are_not_utf8_are_found_and_escaped() -> None:
    name = b"caf\xe9"
    passwd, group = [b"%s:x:5:6::/h\xff:\n" % name], [b"g:x:7:a,%s\n" % name]
    user = resolve_user(Context(run_as_user=pb.Int64Value(value=5)), "", lambda: passwd, lambda: group)
    assert (user.name, user.home, user.groups) == ("caf\ufffd", "/h\ufffd", (6, 7))


def test_memberships_beyond_the_kernel_limit_are_omitted() -> None:
    user = _resolve(Context(), "app", PASSWD, "".join(f"g:x:{number}:app\n" for number in range(70_000)))
    assert len(user.groups) == 65536


@given(strategies.text(max_size=40), strategies.text(max_size=200), strategies.text(max_size=200))
def test_random_files_never_break_resolution(image: str, passwd: str, group: str) -> None:
    try:
        user = resolve_user(
            Context(), image, lambda: [passwd.encode(errors="replace")], lambda: [group.encode(errors="replace")]
        )
    except Invalid:
        return
    assert user.gid in user.groups
