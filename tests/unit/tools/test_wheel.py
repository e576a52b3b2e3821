"""`make wheel`: the wheel has the product and its data, and no test kit."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[3]


def test_wheel_has_the_product_without_the_test_kit(tmp_path: Path) -> None:
    # Without isolation, as `make wheel` builds it: no network is needed.
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("pykubelet-*.whl")
    names = {name for name in ZipFile(wheel).namelist() if not name.endswith("/")}
    source = ROOT / "src"
    product = {
        str(path.relative_to(source)) for path in (source / "pykubelet").rglob("*.py") if "testing" not in path.parts
    }
    assert product <= names
    assert not {name for name in names if name.startswith(("pykubelet/testing", "tests", "tools", "benchmarks"))}
