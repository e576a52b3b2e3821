import random
import time
from fnmatch import fnmatchcase

import pytest

from pykubelet.kubelet.actuate.images.plan.host_glob import label_matches
from pykubelet.kubelet.actuate.images.plan.keyring import Keyring, RegistryCredentials


@pytest.mark.parametrize(
    ("pattern", "label", "expected"),
    [
        ("", "", True),
        ("*", "", True),
        ("*", "registry", True),
        ("reg*", "registry", True),
        ("*try", "registry", True),
        ("r*s*y", "registry", True),
        ("r*x*y", "registry", False),
        ("?egistry", "registry", True),
        ("?registry", "registry", False),
        ("[q-s]egistry", "registry", True),
        ("[^q-s]egistry", "registry", False),
        ("[^a]egistry", "registry", True),
        ("reg[0-9]", "reg7", True),
        (r"\*", "*", True),
        (r"\*", "x", False),
        (r"a[\]]", "a]", True),
        ("a[", "a[", True),
        ("a[", "ab", False),
        ("a\\", "ab", False),
        ("x" * 300, "x" * 300, True),
        ("*", "x" * 64, False),
    ],
)
def test_label_is_matched_as_by_go(pattern: str, label: str, expected: bool) -> None:
    assert label_matches(pattern, label) is expected


def test_simple_patterns_match_as_with_fnmatch() -> None:
    lots = random.Random(1)
    for _ in range(20_000):
        pattern = "".join(lots.choices("ab*?", k=lots.randrange(9)))
        label = "".join(lots.choices("ab", k=lots.randrange(9)))
        assert label_matches(pattern, label) is fnmatchcase(label, pattern), (pattern, label)


@pytest.mark.parametrize(
    "locations",
    [
        [f"{'*a' * 250_000}.example.com"],
        [f"{'[a-z]' * 100_000}.example.com"],
        [f"*{'a' * 31}b{number}.example.com" for number in range(20_000)],
        [f"{'*a?' * 80}{number}.example.com" for number in range(5_000)],
    ],
    ids=["long", "classes", "many", "stars"],
)
def test_pull_secret_of_a_mebibyte_takes_the_agent_no_time(locations: list[str]) -> None:
    """Lookups are a part of the event loop."""
    begin = time.thread_time()
    keyring = Keyring()
    keyring.add(dict.fromkeys(locations, RegistryCredentials("u", "p")))
    keyring.lookup(f"{'a' * 63}.example.com/app")
    assert time.thread_time() - begin < 3.0


def test_locations_beyond_the_limit_are_ignored() -> None:
    keyring = Keyring()
    keyring.add({f"r{number}.example.com": RegistryCredentials("u", "p") for number in range(1001)})
    assert keyring.lookup("r999.example.com/app") and not keyring.lookup("r1000.example.com/app")
