"""The list of violated rules that the validators of an object fill."""

from collections.abc import Collection, Iterable

from pykubelet.kubelet.desired.manifest.manifest_types import Finding


class Findings:
    """The findings of an object, with checks that many rules share."""

    def __init__(self) -> None:
        self.items: list[Finding] = []

    def add(self, field: str, message: str, remedy: str = "") -> None:
        """Report a violated rule at a field."""
        self.items.append(Finding(field, message, remedy))

    def complaint(self, field: str, message: str) -> None:
        """Report the complaint of a predicate of ``names``; an empty one is ignored."""
        if message:
            what, _, remedy = message.partition("; ")
            self.add(field, what, remedy)

    def required(self, field: str, value: object, remedy: str = "") -> bool:
        """Whether a text or list is not empty; reports it otherwise."""
        if value:
            return True
        self.add(field, "is required", remedy)
        return False

    def one_of(self, field: str, value: str, allowed: Collection[str]) -> bool:
        """Whether a value is one of the allowed ones; empty means not set and passes."""
        if not value or value in allowed:
            return True
        self.add(field, f"{value!r} is not possible here", "use " + _either(allowed))
        return False

    def in_range(self, field: str, value: int | None, low: int, high: int | None = None) -> None:
        """Check that a number, if set, is within a range, both ends included."""
        if value is None or (value >= low and (high is None or value <= high)):
            return
        limits = f"at least {low}" if high is None else f"between {low} and {high}"
        self.add(field, f"is {value}, but must be {limits}")

    def file_mode(self, field: str, value: int | None) -> None:
        """Check permission bits, if set."""
        if value is not None and not 0 <= value <= 0o777:
            self.add(field, f"is {value:#o} in octal, but must be between 0 and 0777", "write it as in 0644")

    def exactly_one(self, field: str, given: Iterable[str], allowed: Collection[str], what: str) -> bool:
        """Whether one of several exclusive fields is set."""
        names = list(given)
        if not names:
            self.add(field, f"{what} is required", "give one of " + ", ".join(allowed))
        elif len(names) > 1:
            self.add(
                f"{field}.{names[1]}", f"stands beside {names[0]}, but only one {what} is possible", "take one away"
            )
        return len(names) == 1


def _either(values: Collection[str]) -> str:
    *others, last = sorted(values)
    return f"{', '.join(others)} or {last}" if others else last
