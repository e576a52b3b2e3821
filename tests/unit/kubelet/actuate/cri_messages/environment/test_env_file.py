"""Files of environment variables."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.actuate.cri_messages.environment.env_file import parse_env_file


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("", "K", ""),
        ("K='v'", "K", "v"),
        ("K='v'\n", "OTHER", ""),
        ("  \t K='v'\r\n", "K", "v"),
        ("# K='no'\n\n   \nK='yes' # really\n", "K", "yes"),
        ("K='a $(B) \\n #c'\n", "K", "a $(B) \\n #c"),
        ("A='1\n2\n\n3'\nK='v'", "A", "1\n2\n\n3"),
        ("A='1\n2'\nK='v'", "K", "v"),
        ("K= 'v'\n", "K", ""),
        ("K=''\n", "K", ""),
        ("A='x=y'\nK='v'", "A", "x=y"),
        ("K='first'\nK='second'\n", "K", "first"),
        ("K='v'\nthis is never looked at", "K", "v"),
    ],
)
def test_value_of_a_key_is_read_from_an_environment_file(text: str, key: str, value: str) -> None:
    assert parse_env_file(text, {key}).value(key) == value


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("K", "line 1: missing '='"),
        ("\n='v'", "line 2: empty variable name"),
        ("K ='v'", "line 1: whitespace before '=' is not allowed"),
        ("K=v", "line 1: value must be enclosed in single quotes"),
        ("K=", "line 1: value must be enclosed in single quotes"),
        ('K="v"', "line 1: value must be enclosed in single quotes"),
        ("K='a'b", "line 1: unexpected content after closing quote"),
        ("A='1\n2' x", "line 2: unexpected content after closing quote"),
        ("A='1'\nK='a\nb\n", "line 2: unclosed single quote"),
    ],
)
def test_faulty_environment_file_is_refused_with_its_line(text: str, fault: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_env_file(text, {"K"}).value("K")
    assert str(caught.value) == fault


@settings(deadline=None)
@given(st.text("AK='# \n\t\r$x"), st.text("=#ab \n", max_size=8))
def test_any_text_is_read_or_refused(text: str, value: str) -> None:
    fault = parse_env_file(text, {"K"}).fault
    assert not fault or fault.startswith("line ")
    assert parse_env_file(f"A='{value}'\nK='found'", {"K"}).value("K") == "found"


def test_several_variables_are_read_up_to_a_faulty_line() -> None:
    found = parse_env_file("A='1'\nX='no'\nB='2'\nA='3'\nfaulty\nC='4'\n", {"A", "B", "C"})
    assert found.values == {"A": "1", "B": "2"}
    assert (found.value("A"), found.value("B")) == ("1", "2")
    with pytest.raises(Invalid, match="line 5: missing '='"):
        found.value("C")
    assert parse_env_file("A='1'\nB='2'\nfaulty\n", {"A", "B"}).fault == ""
