"""As whom a container runs."""

import pytest
from hypothesis import given, strategies

from pykubelet.base.errors import Invalid
from pykubelet.criserver.spec.users import resolve_user
from pykubelet.criserver.types import ContainerUser
from pykubelet.pb import runtime_v1_pb2 as pb

PASSWD = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\n1001:x:7:7::/:/bin/sh\nbroken\n"
GROUP = "root:x:0:\nstaff:x:50:app,other\nteam:x:60:app\nlone:x:70:\n"
Context = pb.LinuxContainerSecurityContext


def _resolve(context: Context, image: str = "") -> ContainerUser:
    return resolve_user(context, image, PASSWD, GROUP)


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
def test_users(context: Context, image: str, uid: int, gid: int, groups: tuple[int, ...]) -> None:
    user = _resolve(context, image)
    assert (user.uid, user.gid, user.groups) == (uid, gid, groups)


@pytest.mark.parametrize(
    ("context", "image", "message"),
    [
        (Context(), "nobody-here", "not in the image's /etc/passwd"),
        (Context(), "app:no-group", "not in the image's /etc/group"),
        (Context(), "4294967295", "out of range"),
        (Context(), "4294967296", "out of range"),
        (Context(), "-1", "out of range"),
        (Context(run_as_group=pb.Int64Value(value=6)), "", "needs run_as_user"),
        (Context(supplemental_groups=[2**32]), "", "out of range"),
    ],
)
def test_impossible_users(context: Context, image: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        _resolve(context, image)


@pytest.mark.parametrize("number", ["4294967295", "4294967296", "9" * 5000, "٣"])
def test_lines_with_impossible_ids_count_for_nothing(number: str) -> None:
    with pytest.raises(Invalid, match="not in the image's /etc/passwd"):
        resolve_user(Context(), "evil", f"evil:x:{number}:0::/:\n", "")
    with pytest.raises(Invalid, match="not in the image's /etc/group"):
        resolve_user(Context(), "0:evil", "", f"evil:x:{number}:\n")


@given(strategies.text(max_size=40), strategies.text(max_size=200), strategies.text(max_size=200))
def test_no_image_breaks_it(image: str, passwd: str, group: str) -> None:
    try:
        user = resolve_user(Context(), image, passwd, group)
    except Invalid:
        return
    assert user.gid in user.groups
