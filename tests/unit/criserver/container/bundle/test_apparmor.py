"""Loading AppArmor profiles; the kernel's list and the parser are stand-ins."""

from pathlib import Path

import pytest

from pykubelet.base.errors import Permanent
from pykubelet.criserver.container.bundle.apparmor import AppArmorProfiles
from pykubelet.criserver.spec.security.apparmor import DEFAULT_PROFILE, default_profile

OTHERS = "mine (enforce)\n"


class Node:
    """A kernel with a list of profiles, and a parser that adds to it."""

    def __init__(self, directory: Path, code: int = 0) -> None:
        self.listed, self.taken, parser = directory / "profiles", directory / "taken", directory / "parser"
        self.listed.write_text(OTHERS)
        parser.write_text(
            f'#!/bin/sh\n[ {code} = 0 ] || {{ echo bad rule >&2; exit {code}; }}\necho "$@" >> {self.taken}\n'
            f"cat > {directory}/profile\necho '{DEFAULT_PROFILE} (enforce)' >> {self.listed}\n"
        )
        parser.chmod(0o755)
        self.profile = directory / "profile"
        self.profiles = AppArmorProfiles(self.listed, str(parser))

    def loads(self) -> int:
        return len(self.taken.read_text().splitlines()) if self.taken.exists() else 0


async def test_localhost_profile_must_be_loaded(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.profiles.ensure("mine")
    with pytest.raises(Permanent, match="'other' is not loaded"):
        await node.profiles.ensure("other")
    assert node.loads() == 0
    node.listed.unlink()
    with pytest.raises(Permanent, match="securityfs"):
        await node.profiles.ensure("mine")


async def test_default_profile_is_loaded_once_and_again_after_its_removal(tmp_path: Path) -> None:
    node = Node(tmp_path)
    # One of an older release is replaced.
    node.listed.write_text(f"{DEFAULT_PROFILE} (enforce)\n")
    for _ in range(2):
        await node.profiles.ensure(DEFAULT_PROFILE)
    assert (node.loads(), node.profile.read_text()) == (1, default_profile())
    assert node.taken.read_text() == "-Kr\n"
    node.listed.write_text(OTHERS)
    await node.profiles.ensure(DEFAULT_PROFILE)
    assert node.loads() == 2


async def test_parser_errors_are_reported(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="bad rule"):
        await Node(tmp_path, code=1).profiles.ensure(DEFAULT_PROFILE)
    with pytest.raises(Permanent, match="cannot be loaded"):
        await AppArmorProfiles(tmp_path / "none", str(tmp_path / "none")).ensure(DEFAULT_PROFILE)
