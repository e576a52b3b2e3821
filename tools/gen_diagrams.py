"""Draw the state machines from their transition tables: ``docs/machines/*.md``, as Mermaid diagrams.

python tools/gen_diagrams.py           write them
python tools/gen_diagrams.py --check   exit 1 if one is out of date
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from pykubelet.criserver.container.plan.lifecycle import LIFE_CYCLE as CONTAINER
from pykubelet.criserver.sandbox.plan.lifecycle import LIFE_CYCLE as SANDBOX
from pykubelet.kubelet.control.workers.plan.lifecycle import LIFE_CYCLE as WORKER

DOCS = Path(__file__).resolve().parent.parent / "docs" / "machines"

Transition = tuple[object, str, object]


def page(title: str, source: str, transitions: Iterable[Transition]) -> str:
    """One Markdown page with the diagram of one machine."""
    rows = "\n".join(f"    {a} --> {b}: {why}" for a, why, b in transitions)
    head = f"# {title}\n\nGenerated from `{source}` by `tools/gen_diagrams.py`."
    return f"{head}\n\n```mermaid\nstateDiagram-v2\n{rows}\n```\n"


def pages() -> dict[Path, str]:
    """Every page, by its path."""
    container, sandbox, worker = (
        f"src/pykubelet/{package}/plan/lifecycle.py"
        for package in ("criserver/container", "criserver/sandbox", "kubelet/control/workers")
    )
    return {
        DOCS / "container.md": page("Container in the runtime server", container, CONTAINER.transitions),
        DOCS / "sandbox.md": page("Pod sandbox in the runtime server", sandbox, SANDBOX.transitions),
        DOCS / "pod_worker.md": page("Pod worker", worker, WORKER.transitions),
    }


def main(arguments: list[str]) -> int:
    """Write or check the pages; returns the exit status."""
    stale = [path for path, text in pages().items() if not path.is_file() or path.read_text() != text]
    if arguments == ["--check"]:
        for path in stale:
            print(f"{path.name} is out of date; run: make gen", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pages()[path])
        print(f"wrote {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
