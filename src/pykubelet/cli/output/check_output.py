"""The output of ``pykubelet check``: lines, JSON, and SARIF 2.1.0 for code scanning."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import quote

import pykubelet
from pykubelet.kubelet.desired.check import CheckFinding, CheckSource, Rule, Severity

_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_RULES: Final = tuple(Rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of a check."""

    sources: Sequence[CheckSource]
    findings: Sequence[CheckFinding]
    node: str
    """Name of the node that the manifests were checked against; empty: none."""
    skipped: Sequence[str]
    """Checks that were left out, since no node is known."""

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(each.severity is severity for each in self.findings)


def lines(checked: CheckResult, *, quiet: bool) -> Iterator[str]:
    """Yield a line for each finding; without ``quiet`` also for each file that has none."""
    yield from map(str, checked.findings)
    if quiet:
        return
    origins = {each.problem.origin for each in checked.findings}
    for source in checked.sources:
        if source.manifest.origin not in origins:
            yield f"{source.manifest.origin}: ok, {', '.join(str(item.key) for item in source.manifest.objects)}"


def summary(checked: CheckResult) -> str:
    """Return the numbers of files, errors and warnings."""
    counts = (
        (len(checked.sources), "file"),
        (checked.count(Severity.ERROR), "error"),
        (checked.count(Severity.WARNING), "warning"),
    )
    files, *found = [f"{number} {name}{'' if number == 1 else 's'}" for number, name in counts]
    return f"{files} checked, {', '.join(found)}"


def document(checked: CheckResult) -> dict[str, Any]:
    """Return the result as plain values for ``-o json``."""
    return {
        "files": [source.manifest.origin for source in checked.sources],
        "node": checked.node or None,
        "skipped": list(checked.skipped),
        "errors": checked.count(Severity.ERROR),
        "warnings": checked.count(Severity.WARNING),
        "findings": [_plain(each) for each in checked.findings],
    }


def _plain(finding: CheckFinding) -> dict[str, Any]:
    problem = finding.problem
    return {
        "rule": finding.rule.value,
        "severity": finding.severity.value,
        "file": problem.origin,
        "line": problem.line or None,
        "column": problem.column or None,
        "object": problem.object,
        "field": problem.field,
        "message": problem.message,
        "remedy": problem.remedy,
        "related": [{"file": place.origin, "line": place.line or None} for place in finding.related],
    }


def sarif(checked: CheckResult) -> dict[str, Any]:
    """Return the result as a SARIF 2.1.0 log with one run (OASIS standard, errata 01)."""
    rules = [{"id": rule.value, "shortDescription": {"text": rule.description}} for rule in _RULES]
    driver = {"name": "pykubelet", "version": pykubelet.__version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(each) for each in checked.findings],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(finding: CheckFinding) -> dict[str, Any]:
    problem = finding.problem
    subject = ": ".join(part for part in (problem.object, problem.field) if part)
    text = f"{subject}: {problem.message}" if subject else problem.message
    location = _location(problem.origin, problem.line, problem.column)
    if subject:
        location["logicalLocations"] = [{"fullyQualifiedName": subject}]
    result: dict[str, Any] = {
        "ruleId": finding.rule.value,
        "ruleIndex": _RULES.index(finding.rule),
        "level": finding.severity.value,
        "message": {"text": f"{text}; {problem.remedy}" if problem.remedy else text},
        "locations": [location],
    }
    if finding.related:
        result["relatedLocations"] = [
            {"id": number, **_location(place.origin, place.line, 0), "message": {"text": "the other place"}}
            for number, place in enumerate(finding.related)
        ]
    return result


def _location(origin: str, line: int, column: int) -> dict[str, Any]:
    """Return a location; lines and columns count from 1, and a region without a line is not valid."""
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(origin)}}
    if line:
        physical["region"] = {"startLine": line, **({"startColumn": column} if column else {})}
    return {"physicalLocation": physical}


def _uri(origin: str) -> str:
    """Return a file's name as URI reference: relative names stay relative."""
    if "://" in origin:
        return origin
    path = PurePath(origin)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
