"""Build the second disk of the emulated machine: this source tree, and a virtual environment for it.

The environment has what the running interpreter has of the product's dependencies and of pytest: what
``requirements.lock`` has installed. The disk is built for each run, so that it is always this tree.
"""

import compileall
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from pykubelet.testing.ociimage import ImageSpec, pack
from tools.v2.image import PROJECT_DIRECTORY

ROOT = Path(__file__).resolve().parents[2]
BUSYBOX = "localhost/busybox:1"
"""Reference of the image that the disk has as ``busybox.tar``."""
_TREES = ("src", "tests", "tools", "examples")
_FILES = ("pyproject.toml", "requirements.lock", "README.md", "Makefile")
_TEST_TOOLS = ("pytest", "pytest-asyncio", "pytest-timeout", "hypothesis")
_SIZE = "1G"


def build(target: Path, python: str) -> None:
    """Write the disk to ``target``, for a machine with that version of Python.

    RuntimeError: the running interpreter has another version, so that its compiled modules do not fit.
    """
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    if own != python:
        raise RuntimeError(
            f"the virtual environment has Python {own}, but the emulated machine has Debian's {python}: "
            f"make it with PYTHON=/usr/bin/python{python}"
        )
    with tempfile.TemporaryDirectory(prefix="v2-", dir=target.parent) as directory:
        stage = Path(directory)
        for name in _TREES:
            shutil.copytree(ROOT / name, stage / name)
        for name in _FILES:
            shutil.copy(ROOT / name, stage / name)
        _environment(stage / ".venv", python)
        pack(ImageSpec(BUSYBOX), stage / "busybox.tar", os.uname().machine)
        # What was compiled before has been copied, with its times, and is valid.
        compileall.compile_dir(stage, quiet=2, stripdir=directory, prependdir=PROJECT_DIRECTORY)
        target.unlink(missing_ok=True)
        command = ["mke2fs", "-q", "-t", "ext4", "-L", "project", "-d", directory, str(target), _SIZE]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)


def _environment(target: Path, python: str) -> None:
    packages = target / "lib" / f"python{python}" / "site-packages"
    packages.mkdir(parents=True)
    (target / "bin").mkdir()
    (target / "bin/python").symlink_to(f"/usr/bin/python{python}")
    (target / "pyvenv.cfg").write_text(f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {python}\n")
    (packages / "pykubelet.pth").write_text(f"{PROJECT_DIRECTORY}/src\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for distribution in closure((*project["dependencies"], *_TEST_TOOLS)):
        for file in distribution.files or ():
            source = Path(str(distribution.locate_file(file)))
            if ".." not in file.parts and source.is_file():
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, packages / file)


def closure(requirements: Iterable[str]) -> list[metadata.Distribution]:
    """The installed distributions that the requirements name, and all that those need."""
    found: dict[str, metadata.Distribution] = {}
    waiting = list(requirements)
    while waiting:
        requirement = waiting.pop()
        name = re.match(r"[\w.-]+", requirement)
        if name is None or name[0] in found:
            continue
        try:
            distribution = metadata.distribution(name[0])
        except metadata.PackageNotFoundError:
            if ";" in requirement:  # needed elsewhere: with other versions of Python or on other systems
                continue
            raise
        found[name[0]] = distribution
        waiting += [each for each in distribution.requires or () if "extra ==" not in each]
    return list(found.values())
