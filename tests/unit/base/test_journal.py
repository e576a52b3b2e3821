"""The journal is bounded in both directions."""

from pykubelet.base.journal import Journal


def test_keeps_the_newest_entries_of_a_key() -> None:
    journal = Journal(per_key=3)
    for number in range(5):
        journal.add("pod", 1_700_000_000 + number, "decided", number=number)
    assert [entry.fields for entry in journal.entries("pod")] == [(("number", n),) for n in (2, 3, 4)]
    assert journal.render("pod").splitlines()[-1] == "2023-11-14T22:13:24.000+00:00 decided number=4"


def test_forgets_the_key_unused_for_longest() -> None:
    journal = Journal(max_keys=2)
    for key in ("a", "b", "a", "c"):
        journal.add(key, 0, "seen")
    assert journal.keys() == ("a", "c")
    assert journal.entries("b") == ()


def test_forget() -> None:
    journal = Journal()
    journal.add("a", 0, "seen")
    journal.forget("a")
    journal.forget("a")
    assert journal.keys() == ()
    assert journal.render("a") == ""
