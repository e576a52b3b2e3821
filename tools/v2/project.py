"""Build the second disk of the emulated machine: this source tree, and a virtual environment for it.

The environment has what the running interpreter has of the product's dependencies and of pytest: what
``requirements.lock`` has installed. If Debian's Python in the machine has another version, pip fetches the same
packages of the lock file for that one. The disk is built for each run, so that it is always this tree.
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
_OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
_ENTRY = re.compile(r"^([a-z0-9][a-z0-9-]*)==.*\n(?:[ \t]+.*\n)*", re.MULTILINE)
"""A package of the lock file, with its hashes."""


def build(target: Path, python: str) -> None:
    """Write the disk to ``target``, for a machine with that version of Python, such as ``3.11``.

    RuntimeError: pip has no packages for that version.
    """
    with tempfile.TemporaryDirectory(prefix="v2-", dir=target.parent) as directory:
        stage = Path(directory)
        for name in _TREES:
            shutil.copytree(ROOT / name, stage / name)
        for name in _FILES:
            shutil.copy(ROOT / name, stage / name)
        _environment(stage / ".venv", python)
        pack(ImageSpec(BUSYBOX), stage / "busybox.tar", os.uname().machine)
        _compile(stage, python)
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
    needed = closure((*project["dependencies"], *_TEST_TOOLS))
    if python != _OWN:
        _fetch(packages, python, [str(distribution.metadata["Name"]) for distribution in needed])
        return
    for distribution in needed:
        for file in distribution.files or ():
            source = Path(str(distribution.locate_file(file)))
            if ".." not in file.parts and source.is_file():
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, packages / file)


def _fetch(packages: Path, python: str, names: Iterable[str]) -> None:
    """Have pip unpack the packages of the lock file for another version of Python."""
    chosen = packages.parent / "requirements.lock"
    chosen.write_text(locked((ROOT / "requirements.lock").read_text(), names))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--target", str(packages), "--python-version", python, "--only-binary=:all:", "--no-deps"]
    pip += ["--no-compile", "--root-user-action=ignore", "--require-hashes", "-r", str(chosen)]
    done = subprocess.run(pip, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    chosen.unlink()
    if done.returncode != 0:
        raise RuntimeError(f"pip cannot install the packages of requirements.lock for Python {python}: {done.stderr}")


def locked(lock: str, names: Iterable[str]) -> str:
    """The part of a lock file that is about these packages. RuntimeError: one of them is not in it."""
    entries = {match[1]: match[0] for match in _ENTRY.finditer(lock)}
    wanted = sorted({re.sub(r"[-_.]+", "-", name).lower() for name in names})
    if missing := [name for name in wanted if name not in entries]:
        raise RuntimeError(f"requirements.lock does not have {', '.join(missing)}")
    return "".join(entries[name] for name in wanted)


def _compile(stage: Path, python: str) -> None:
    """Compile all modules, which takes minutes in the machine. Without an interpreter of its version, it does so."""
    if python == _OWN:
        # What was compiled before has been copied, with its times, and is valid.
        compileall.compile_dir(stage, quiet=2, stripdir=str(stage), prependdir=PROJECT_DIRECTORY)
    elif program := _interpreter(python):
        command = [program, "-m", "compileall", "-qq", "-s", str(stage), "-p", PROJECT_DIRECTORY, str(stage)]
        subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True)


def _interpreter(python: str) -> str:
    """A Python of that version on this machine; empty: it does not exist."""
    named = shutil.which(f"python{python}")
    built = Path.home().glob(f".pyenv/versions/{python}.*/bin/python{python}")
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    programs: list[str] = [*([named] if named else ()), *(str(each) for each in built)]
    for program in programs:
        # A program of this name may be one that only says that no such version is chosen.
        done = subprocess.run([program, "-c", asked], capture_output=True, text=True, check=False)
        if done.stdout.strip() == python:
            return program
    return ""


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
