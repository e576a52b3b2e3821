"""The form of log messages and docstrings: what a reader meets without the code around it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src/pykubelet"
PRODUCT = [path for path in sorted(SOURCE.rglob("*.py")) if not {"pb", "models"} & set(path.relative_to(SOURCE).parts)]
TREES = ("src", "tests", "tools", "benchmarks")
_LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
_NAME = re.compile(r"[A-Z]\w*[A-Z]")
"""A name or an abbreviation, which begins with a capital anywhere: CNI, DaemonSet."""
_ALLUSION = re.compile(r"(Those|That|All of|The same|As|One more|Likewise)\b|What (is|are|was|were)\b|One \w+\.")
"""The begin of a docstring that says nothing without the one before it, or without the name of its object."""
_HALF_QUESTION = re.compile(
    r"((after|at|by|for|from|in|of|on|since|to|until|with) )?(what|which|how|where|when|who|whom|whose|why)\b",
    re.IGNORECASE,
)
"""The begin of a docstring, also of an attribute, without a noun or a verb: "How long it waits.", "For how long."."""


def log_messages(tree: ast.Module) -> Iterator[tuple[int, ast.expr | None]]:
    """Yield the line and the message of each call of the module's logger."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _LEVELS
            and ast.unparse(node.func.value) == "_log"
        ):
            yield node.lineno, node.args[0] if node.args else None


def is_message(node: ast.expr | None) -> bool:
    """Whether a message is a text in lower case without full stop and values: those are fields of the record."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    text = node.value
    return not text.endswith(".") and "%" not in text and (not text[:1].isupper() or _NAME.match(text) is not None)


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""


def texts_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring, those of attributes included."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text


def test_log_messages_are_lower_case_texts_without_values() -> None:
    found = [
        (f"{path.relative_to(SOURCE)}:{line}", is_message(message))
        for path in PRODUCT
        for line, message in log_messages(ast.parse(path.read_text()))
    ]
    assert len(found) > 250
    assert [place for place, good in found if not good] == [], "put values into `extra`"


def test_log_messages_of_another_form_are_recognized() -> None:
    code = '_log.info("a: b", extra={})\n_log.info("CNI: b")\n_log.info("A b")\n_log.info("a.")\n_log.info("a %s", 1)\n'
    found = list(log_messages(ast.parse(code + '_log.info(f"a {b}")\n_log.info(text)\n')))
    assert [line for line, message in found if not is_message(message)] == [3, 4, 5, 6, 7]


def test_docstrings_can_be_understood_alone() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {text.splitlines()[0]}"
        for path in PRODUCT
        for line, text in docstrings(ast.parse(path.read_text()))
        if _ALLUSION.match(text)
    ]
    assert found == [], "begin with an imperative or a noun phrase"


def test_docstrings_that_need_the_one_before_them_are_recognized() -> None:
    texts = ("All of it.", "Return all of it.", "As two.", "What is known of it.", "One mount.", "One mount of a pod.")
    code = "".join(f'def one():\n    """{text}"""\n' for text in texts)
    assert [line for line, text in docstrings(ast.parse(code)) if _ALLUSION.match(text)] == [1, 5, 7, 9]


def test_docstrings_do_not_begin_like_questions() -> None:
    found = {
        tree: [
            (f"{path.relative_to(ROOT)}:{line}", text)
            for path in sorted(set((ROOT / tree).rglob("*.py")) - set((SOURCE / "pb").iterdir()))
            for line, text in texts_of(ast.parse(path.read_text()))
        ]
        for tree in TREES
    }
    assert [tree for tree, texts in found.items() if len(texts) < 100] == [], "the rule reads each of them"
    rejected = [
        f"{place}: {text.splitlines()[0]}"
        for texts in found.values()
        for place, text in texts
        if _HALF_QUESTION.match(text)
    ]
    assert rejected == [], "write an imperative, a noun phrase ('Longest wait', 'The reason why …') or 'Whether …'"


def test_docstrings_that_begin_like_questions_are_recognized() -> None:
    code = """\
'''What it reads.'''
class Pace:
    '''How fast it is.'''
    rest: float
    '''Where it ends.'''
    def __init__(self):
        self.since = 0.0
        '''When it began.'''
        self.limit = 0.0
        '''For how long it may run.'''
    def is_slow(self):
        '''Whether it is slow.'''
    def reason(self):
        '''Return what it is told.'''
"""
    found = {line for line, text in texts_of(ast.parse(code)) if _HALF_QUESTION.match(text)}
    assert found == {1, 3, 5, 8, 10}
