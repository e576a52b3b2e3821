"""CRIU's images: what is read of them, and which are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid
from pykubelet.criserver.container.checkpoint.plan import criu_images
from pykubelet.criserver.container.checkpoint.plan.criu_images import (
    MAX_VALUES,
    Budget,
    MountEntry,
    credentials,
    inherited,
    joined,
    kind_of,
    mounts,
)
from pykubelet.testing.criu import core, image, images_of, message, mount


def test_images_are_known_by_their_names() -> None:
    names = ("inventory.img", "core-1.img", "core-123.img", "ids-1.img", "mountpoints-13.img")
    assert [kind_of(name) for name in names] == ["inventory", "core", "core", "ids", "mountpoints"]
    assert not any(kind_of(name) for name in ("pages-1.img", "core-1", "core", "corex-1.img", "descriptors.json"))


def test_credentials_namespaces_and_mounts_are_read() -> None:
    images = images_of(core=core(creds=[(10, 1), (10, 2), (12, 5), (12, 0)], uid=12, seccomp=2))
    found = credentials(images["core-1.img"], "it", Budget())
    assert found is not None
    assert found.capabilities == {
        "inheritable": 0, "permitted": 1 | 2 << 32, "effective": 0, "bounding": 5, "ambient": 0,
    }  # fmt: skip
    assert (found.uids, found.no_new_privileges, found.seccomp) == (frozenset({12}), True, 2)
    assert (
        joined(images["ids-1.img"], "it", Budget())["mount"] == 13
        and inherited(images["inventory.img"], "it", Budget())["mount"] == 6
    )
    entries = image("mountpoints", mount("/a", flags=0, key="/k"), mount("/", kind=17))
    assert mounts(entries, "it", Budget()) == [
        MountEntry(17, "", "/a", "/k", True, False),
        MountEntry(17, "", "/", "", False, True),
    ]


def test_packed_numbers_are_the_same() -> None:
    found = credentials(core(creds=[(10, b"\x01\x02")]), "it", Budget())
    assert found is not None and found.capabilities["permitted"] == 1 | 2 << 32


def test_zombie_has_no_credentials_but_a_living_task_must() -> None:
    assert credentials(image("core", message((1, 1), (3, message((1, 2))))), "it", Budget()) is None
    with pytest.raises(Invalid, match="no credentials"):
        credentials(image("core", message((1, 1), (3, message((1, 1))))), "it", Budget())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        core()[:-1],
        core() + b"\x05\x00\x00\x00abc",
        core() + core()[8:],
        image("ids", message((1, 1))),
        image("core"),
        image("core", b"\xff" * 20),
        image("core", message((5, message((10, b""))), (5, message((10, b""))))),
        image("core", message((5, message((10, message((1, 0), (1, 1))))))),
        image("core", message((5, message((10, message((10, 1 << 40))))))),
        image("core", message((5, 7))),
        image("core", b"\x2a\xff\xff\xff\xff\x0f"),
        image("core", b"\x2b"),
    ],
)
def test_damaged_and_ambiguous_images_are_refused(data: bytes) -> None:
    with pytest.raises(Invalid, match="it: "):
        credentials(data, "it", Budget())


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read, kind in ((credentials, "core"), (mounts, "mountpoints"), (joined, "ids"), (inherited, "inventory")):
        try:
            read(image(kind, data), "it", Budget())
        except Invalid:
            continue


def test_words_of_capabilities_are_limited() -> None:
    """Their bits become one number, which would grow with each of a million words."""
    assert credentials(core(creds=[(10, b"\x01\x00")]), "it", Budget())
    for creds in ([(10, b"\x01" * 1_000_000)], [(10, 1), (10, 1), (10, 0)]):
        with pytest.raises(Invalid, match="more than 2 words"):
            credentials(core(creds=creds), "it", Budget())


def test_values_of_all_images_share_a_budget() -> None:
    budget = Budget()
    assert credentials(core(), "it", budget)
    spent = MAX_VALUES - budget.left
    assert spent == 19
    enough = Budget(2 * spent - 1)
    credentials(core(), "it", enough)
    with pytest.raises(Invalid, match="it: the images of the checkpoint have more than"):
        credentials(core(), "it", enough)
    with pytest.raises(Invalid, match="more than 1000000 values"):
        mounts(image("mountpoints", *[b"\xa0\x01\x01" * 300] * 10_000), "it", Budget())


def test_number_of_mounts_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    many = image("mountpoints", *[b""] * 100_001)
    with pytest.raises(Invalid, match="more than 100000 entries"):
        mounts(many, "it", Budget())
    assert criu_images.fields(b"", "it", Budget()) == {}
