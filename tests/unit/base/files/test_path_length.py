"""Paths that the kernel does not take."""

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.base.files.path_length import LONGEST, check_length


def test_path_that_cannot_be_mounted_is_refused_with_its_field_and_its_length() -> None:
    check_length("/" + "a" * (LONGEST - 1), "field")
    check_length("/" + "é" * (LONGEST // 2), "field")
    for path in ("/" + "a" * LONGEST, "/" + "é" * (LONGEST // 2 + 1)):
        with pytest.raises(Invalid, match=rf"^field has {len(path.encode())} bytes, .* no path of more than 4095: /"):
            check_length(path, "field")


def test_path_with_nul_is_refused_with_its_field() -> None:
    with pytest.raises(Invalid, match=r"^field contains NUL, and the kernel takes no such path: '/a\\x00b'$"):
        check_length("/a\0b", "field")
