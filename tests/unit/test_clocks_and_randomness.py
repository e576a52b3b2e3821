"""Clocks and random numbers are given to the components that use them, so that tests decide what they are."""

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
MODULES = [
    path
    for path in sorted((SOURCE / "pykubelet").rglob("*.py"))
    if not {"pb", "models", "testing"} & set(path.relative_to(SOURCE).parts)
]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


CLOCKS = {
    "pykubelet.base.clock": "the one place",
    "pykubelet.criserver.storage.usage": "the length of a slice of work in a thread",
    "pykubelet.kubelet.actuate.logs.log_files": "the deadline of a compression in a thread",
    "pykubelet.kubelet.observe.stats.volume_usage": "the length of a slice of work in a thread",
    "pykubelet.linux.cgroups.files": "the deadline of a removal in a thread",
    "pykubelet.linux.filesystems.removal_worker": "the pace of a process of its own",
    "pykubelet.linux.systemd": "the deadline of a D-Bus call in a thread",
}
"""Modules of the daemons that read a clock themselves, with the reason. Must only become fewer."""


_CLOCK = re.compile(r"\btime\.(time|monotonic|perf_counter|process_time)(_ns)?\b|\bdatetime\.(now|utcnow|today)\b")


def test_clocks_are_injected() -> None:
    clocks = {
        module_of(path) for path in MODULES if "cli" not in path.parts and _CLOCK.search(path.read_text()) is not None
    }
    assert clocks == CLOCKS.keys(), "take a Clock"


def uses_randomness(tree: ast.Module) -> list[int]:
    """Return the lines that use the module ``random``, but for defaults of parameters: those can be replaced."""
    defaults = [
        default
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for default in (*node.args.defaults, *node.args.kw_defaults)
    ]
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "random" and node not in defaults
    ]


def test_randomness_is_injected() -> None:
    found = [f"{module_of(path)}:{line}" for path in MODULES for line in uses_randomness(ast.parse(path.read_text()))]
    assert found == [], "take a function that returns a random number"


def test_randomness_that_cannot_be_replaced_is_recognized() -> None:
    code = "def a(x=random.random, *, y=random.random): ...\nb(random.random)\nrandom.uniform(0, 1)\n"
    assert uses_randomness(ast.parse(code)) == [2, 3]
