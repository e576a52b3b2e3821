"""tools/words.py: rejected words are found with their lines, and the list of exceptions is kept exact."""

from pathlib import Path

import pytest

from tools import words

SAMPLES = {
    r"folders?": ("folder", "folders"),
    r"nobody": ("nobody",),
    r"somebody|whoever": ("somebody", "whoever"),
    r"anew|once more": ("anew", "once more"),
    r"everybody": ("everybody",),
    r"allot(s|ted|ment|ments|ting)?": ("allot", "allotted", "allotments"),
    r"wish(es|ed)?": ("wish", "wishes", "wished"),
    r"mend(s|ed|ing)?": ("mend", "mends", "mended", "mending"),
    r"(come|comes|came|coming) back": ("come back", "comes back", "came back", "coming back"),
    r"strangers?": ("stranger", "strangers"),
    r"want of memory": ("want of memory",),
    r"holdings?": ("holding", "holdings"),
    r"ledgers?": ("ledger", "ledgers"),
    r"keepers?": ("keeper", "keepers"),
    r"image rooms?": ("image room", "image rooms"),
    r"lets? go of|let go": ("let go", "let go of", "lets go of"),
    r"(do|does|did) not answer": ("do not answer", "does not answer", "did not answer"),
    r"node ?server": ("nodeserver", "node server"),
    r"ground": ("ground",),
    r"(?<!there )is nothing": ("is nothing",),
    r"(?-i:is none)(?=[.,:;\"'\])}]|$)": ("is none",),
    r"(as|in|of|by|with|from|than|unlike|like) the reference": ("as the reference", "than the reference"),
    r"the reference('s| (does|has|kubelet|agent))": ("the reference's", "the reference does"),
    r"what (is|was|were|has been) left": ("what is left", "what was left", "what has been left"),
    r"not taken(?! (as|for))": ("not taken",),
    r"(run|runs|launched|made) ahead": ("run ahead", "launched ahead"),
    r"(?<=[:;] )who|(?-i:Who)": ("who",),
    r"(?<=/)ports\.py": ("ports.py",),
}
"""Rejected texts by the regular expression in ``words.WORDS`` that finds them."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in place of the project, without files and exceptions."""
    allowed = tmp_path / "tools" / "words_allowed.txt"
    allowed.parent.mkdir()
    allowed.write_text("# no exceptions\n")
    monkeypatch.setattr(words, "_ROOT", tmp_path)
    monkeypatch.setattr(words, "_ALLOWED", allowed)
    monkeypatch.setattr("sys.argv", ["words.py"])
    return tmp_path


def add(project: Path, path: str, text: str) -> None:
    """Write a file of the project."""
    (project / path).parent.mkdir(parents=True, exist_ok=True)
    (project / path).write_text(text)


def test_every_listed_word_has_a_sample() -> None:
    assert list(SAMPLES) == list(words.WORDS)


@pytest.mark.parametrize(
    ("pattern", "sample"), [(pattern, text) for pattern, texts in SAMPLES.items() for text in texts]
)
def test_listed_word_in_a_text_is_found_at_its_line(pattern: str, sample: str) -> None:
    found = list(words.look("a.md", f"first\n\nThe third, {'/' if '.' in sample else '; '}{sample}.\n"))
    assert [(one.path, one.line, one.word, one.instead) for one in found] == [
        ("a.md", 3, sample, words.WORDS[pattern]),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "image_rooms = 1",
        "class ImageRooms:",
        "def _image_rooms() -> None:",
        "IMAGE ROOMS",
        "from x.image_rooms import y",
    ],
)
def test_listed_words_joined_into_an_identifier_are_found(line: str) -> None:
    assert [(one.line, one.word) for one in words.look("a.sh", f"# head\n{line}\n")] == [(2, "image rooms")]


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("turns = 1", "turns"),
        ("class _Turns: ...", "turns"),
        ("def with_turns(): ...", "turns"),
        ("self.held_together = 1", "together"),
        ("def act(beside): ...", "beside"),
        ("_WHO: int = 1", "who"),
        ("for told in x: ...", "told"),
    ],
)
def test_ordinary_word_in_a_name_is_found_at_its_definition(code: str, word: str) -> None:
    found = list(words.look("src/a.py", f"# he turns, they move together: who told him?\n{code}\nprint(turns, told)\n"))
    assert [(one.line, one.word, one.instead) for one in found if one.line > 1] == [(2, word, words.NAMES[word])]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("docs/a.md", "turns, together, beside"),
        ("tests/a.py", "def test_one_that_turns_is_told(): ...\n"),
        ("src/a.py", "aheads = 1  # the moves beside it\n"),
    ],
)
def test_ordinary_word_in_a_text_or_in_the_name_of_a_test_is_not_found(path: str, text: str) -> None:
    assert not list(words.look(path, text))


def test_listed_word_in_the_name_of_a_file_is_found_at_line_zero() -> None:
    assert [(one.line, one.word) for one in words.look("src/image_rooms.py", "x = 1\n")] == [(0, "image rooms")]


def test_two_listed_words_of_one_line_are_both_found() -> None:
    assert [one.word for one in words.look("a.md", "Nobody opens the folder.")] == ["nobody", "folder"]


@pytest.mark.parametrize(
    "text",
    [
        "We recommend it.",
        "bookkeeper",
        "a reference to an image",
        "the reference names a tag",
        "if value is None:",
        "foldering",
    ],
)
def test_similar_words_are_not_found(text: str) -> None:
    assert not list(words.look("a.py", text))


def test_project_with_a_listed_word_fails_and_names_place_and_replacement(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(project, "docs/page.md", "fine\nin a folder\n")
    assert words.main() == 1
    assert capsys.readouterr().out == "docs/page.md:2: write 'directory', not 'folder'\n"


def test_project_without_listed_words_passes(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(project, "docs/page.md", "in a directory\n")
    assert words.main() == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("path", ["src/pykubelet/models/quantity.py", "src/pykubelet/base/clock.py", "docs/page.md"])
def test_files_that_were_written_by_hand_are_read(project: Path, path: str) -> None:
    add(project, path, "folder\n")
    assert words.main() == 1


_OF_OTHERS = (
    *("src/pykubelet/pb/cri_pb2.py", "src/pykubelet/models/core_v1.py", "src/pykubelet/models/certificates_v1beta1.py"),
    *("LICENSE", "tools/words.py", "data.bin"),
)


@pytest.mark.parametrize("path", _OF_OTHERS)
def test_files_of_others_and_files_that_are_not_text_are_not_read(project: Path, path: str) -> None:
    add(project, path, "folder\n")
    assert words.main() == 0


def test_exception_allows_its_word_in_its_file_only(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "tools" / "words_allowed.txt").write_text("a.py: folder  # a field of a foreign format\n")
    add(project, "a.py", "folder = 1\n")
    assert words.main() == 0
    add(project, "a.py", "folder = nobody = 1\n")
    add(project, "b.py", "folder = 1\n")
    assert words.main() == 1
    assert capsys.readouterr().out.splitlines() == [
        "a.py:1: write 'no one, or a sentence with a subject', not 'nobody'",
        "b.py:1: write 'directory', not 'folder'",
    ]


def test_exception_that_is_not_needed_any_more_is_reported(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "tools" / "words_allowed.txt").write_text("a.py: folder  # a field of a foreign format\n")
    add(project, "a.py", "directory = 1\n")
    assert words.main() == 1
    assert capsys.readouterr().out == "words_allowed.txt: 'folder' does not occur in a.py any more\n"


@pytest.mark.parametrize("line", ["a.py: folder", "a.py folder  # why", "a.py: folder  #", "folder"])
def test_malformed_line_of_exceptions_ends_with_status_two(
    project: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "tools" / "words_allowed.txt").write_text(f"# head\n{line}\n")
    assert words.main() == 2
    assert repr(line) in capsys.readouterr().out


def test_paths_as_arguments_limit_what_is_reported(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add(project, "docs/page.md", "folder\n")
    add(project, "src/a.py", "nobody\n")
    monkeypatch.setattr("sys.argv", ["words.py", "docs"])
    assert words.main() == 1
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["docs/page.md"]
