"""Draw the state machines from their transition tables, as Mermaid diagrams, in ARCHITECTURE.md.

python tools/gen_diagrams.py           write them
python tools/gen_diagrams.py --check   exit 1 if one is out of date
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from pykubelet.criserver.container.plan.lifecycle import LIFE_CYCLE as CONTAINER
from pykubelet.criserver.sandbox.plan.lifecycle import LIFE_CYCLE as SANDBOX
from pykubelet.kubelet.control.workers.plan.lifecycle import LIFE_CYCLE as WORKER

_FILE = Path(__file__).resolve().parents[1] / "ARCHITECTURE.md"
_BEGIN, _END = "<!-- diagrams: begin -->\n", "<!-- diagrams: end -->\n"

Transition = tuple[object, str, object]


def diagram(title: str, package: str, transitions: Iterable[Transition]) -> str:
    """The heading and the diagram of one machine, in Markdown."""
    rows = "\n".join(f"    {a} --> {b}: {why}" for a, why, b in transitions)
    return f"### {title}: `{package}/plan/lifecycle.py`\n\n```mermaid\nstateDiagram-v2\n{rows}\n```\n"


def drawn(text: str) -> str:
    """The text with the present diagrams between its marks. ValueError: the marks are missing."""
    head, begin, rest = text.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"the text has no lines {_BEGIN.strip()!r} and {_END.strip()!r}")
    diagrams = "\n".join(
        (
            diagram("Pod worker", "kubelet/control/workers", WORKER.transitions),
            diagram("Pod sandbox", "criserver/sandbox", SANDBOX.transitions),
            diagram("Container", "criserver/container", CONTAINER.transitions),
        )
    )
    return f"{head}{begin}\n{diagrams}\n{end}{tail}"


def main(arguments: list[str], file: Path = _FILE) -> int:
    """Write or check the diagrams of the file; returns the exit status."""
    before = file.read_text()
    after = drawn(before)
    if arguments == ["--check"]:
        if after != before:
            print(f"the diagrams of {file.name} are out of date; run: make gen", file=sys.stderr)
        return 1 if after != before else 0
    if after != before:
        file.write_text(after)
        print(f"wrote the diagrams of {file.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
