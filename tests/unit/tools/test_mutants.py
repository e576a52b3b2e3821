"""`make mutants`: which places are changed, and whether a changed module is noticed."""

from tools import mutants, mutations

SOURCE = '''
"""A docstring."""
import logging
_log = logging.getLogger(__name__)
LIMIT = 3

def larger(a: int, b: int = 2) -> bool:
    """Whether."""
    if a > b:
        _log.info("larger by %s", a - b)
        return True
    if not a:
        raise ValueError(f"{a} is zero")
    if a == 8:
        return False
    if a == 7:
        return 0.0
    return a + 1 > b
'''


def names() -> list[str]:
    return [mutant.name for mutant in mutations.mutants_of("m.py", SOURCE)]


def test_mutants_are_of_code_in_functions_and_not_of_messages() -> None:
    assert names() == [
        "m.py:larger: if a > b -> never",
        "m.py:larger: if a > b -> always",
        "m.py:larger: a > b -> GtE",
        "m.py:larger: return True -> return None",
        "m.py:larger: True in return True -> False",
        "m.py:larger: if not a -> never",
        "m.py:larger: if not a -> always",
        "m.py:larger: not a -> without not",
        "m.py:larger: raise ValueError(f'{a} is zero') -> nothing",
        "m.py:larger: if a == 8 -> never",
        "m.py:larger: if a == 8 -> always",
        "m.py:larger: a == 8 -> NotEq",
        "m.py:larger: 8 in a == 8 -> 9",
        "m.py:larger: False in return False -> True",
        "m.py:larger: if a == 7 -> never",
        "m.py:larger: if a == 7 -> always",
        "m.py:larger: a == 7 -> NotEq",
        "m.py:larger: 7 in a == 7 -> 8",
        "m.py:larger: return 0.0 -> return None",
        "m.py:larger: return a + 1 > b -> return None",
        "m.py:larger: a + 1 > b -> GtE",
        "m.py:larger: a + 1 -> Sub",
        "m.py:larger: 1 in a + 1 -> 2",
    ]


def outcome(namespace: dict[str, object], *arguments: int) -> object:
    try:
        return namespace["larger"](*arguments)  # type: ignore[operator]
    except ValueError:
        return "refused"


def test_each_mutant_changes_what_the_function_does() -> None:
    arguments = [(3, 2), (2, 2), (1, 2), (0, 2), (0, -1), (5, 9), (0, 0), (7, 7), (7, 8), (8, 8), (9, 9)]
    original: dict[str, object] = {}
    exec(SOURCE, original)
    expected = [outcome(original, *each) for each in arguments]
    for mutant in mutations.mutants_of("m.py", SOURCE):
        changed: dict[str, object] = {}
        exec(mutations.compiled(mutant, SOURCE), changed)
        assert [outcome(changed, *each) for each in arguments] != expected, mutant.name


def test_score_of_a_tested_module_counts_killed_mutants() -> None:
    found = mutants.run(["kubelet/observe/pleg/plan/diff.py"], most=6, seed=1, lanes=1)
    assert [each.broken for each in found] == [""]
    assert found[0].killed + len(found[0].survived) + found[0].equivalent == 6
    assert found[0].killed >= 4


def test_every_module_of_the_list_exists_and_has_tests() -> None:
    assert len(mutants.MODULES) >= 30
    for module in mutants.MODULES:
        assert (mutants._PRODUCT / module).is_file(), module
        assert mutants.tests_of(module), module


def test_every_equivalent_mutant_has_a_reason_and_exists() -> None:
    for name, reason in mutants.equivalents().items():
        assert len(reason) > 10, name
        module = name.partition(":")[0]
        source = (mutants._PRODUCT / module).read_text()
        assert name in {mutant.name for mutant in mutations.mutants_of(module, source)}
