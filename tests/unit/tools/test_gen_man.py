"""The manual pages of the command line."""

import re
import shutil
import subprocess

import pytest

from pykubelet.cli.app import _COMMANDS
from tools import gen_man

PAGES = gen_man.pages()


def test_every_command_has_a_page_with_its_options() -> None:
    assert {f"pykubelet-{name}.1" for name in _COMMANDS} | {"pykubelet.1", "pykubelet-image-pull.1"} <= PAGES.keys()
    get = PAGES["pykubelet-get.1"]
    assert ".SH NAME\npykubelet\\-get \\- List objects of the agent\n" in get
    assert "\\-\\-field\\-selector TEXT" in get
    assert "\\-h, \\-\\-help" in get
    assert ".B 124\n" in PAGES["pykubelet.1"]
    assert "pykubelet\\-image\\-pull(1)" in PAGES["pykubelet-image.1"]


@pytest.mark.parametrize("name", PAGES)
def test_lines_are_requests_that_are_known_or_text(name: str) -> None:
    for line in PAGES[name].splitlines():
        assert line, "troff takes an empty line for a vertical space"
        if line[0] in ".'":
            assert re.match(r"\.(TH|SH|PP|TP|B) ?", line), line
        assert not re.search(r"\\(?![-e&(])", line), line


def test_text_is_escaped() -> None:
    assert gen_man.text(".a -b 'c' \\n") == "\\&.a \\-b \\(aqc\\(aq \\en"
    assert gen_man.text("'x") == "\\&\\(aqx"


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_renders_the_pages_without_a_warning() -> None:
    everything = "".join(PAGES[name] for name in sorted(PAGES))
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", "-z", "-K", "utf8"], input=everything, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
