"""Rules of the house that import-linter cannot see by itself."""

import ast
import configparser
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
OURS = [p for p in SOURCE.rglob("*.py") if not {"pb", "models"} & set(p.relative_to(SOURCE).parts)]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def test_pure_code_is_found_by_the_name_of_its_package() -> None:
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    assert "pykubelet.**.plan" in parser["importlinter:contract:pure"]["source_modules"].split()
    assert sum(p.parent.name == "plan" for p in OURS) > 60


_CLAIMS_PURITY = re.compile(r"\bpure\b", re.IGNORECASE)
_EFFECTS = frozenset(
    ("asyncio", "grpc", "logging", "os", "random", "secrets", "socket", "subprocess", "threading", "time")
)


def effects(source: str) -> set[str]:
    """The modules with effects that a module imports, and ``await`` and ``open`` if it uses them."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names} & _EFFECTS
        elif isinstance(node, ast.ImportFrom):
            found |= {(node.module or "").split(".")[0]} & _EFFECTS
        elif isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
            found.add("await")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            found.add("open")
    return found


@pytest.mark.parametrize(
    "path",
    [path for path in OURS if _CLAIMS_PURITY.search(ast.get_docstring(ast.parse(path.read_text())) or "")],
    ids=module_of,
)
def test_module_that_calls_itself_pure_has_no_effects(path: Path) -> None:
    """Also outside the packages named ``plan``, which the contract of imports covers."""
    assert effects(path.read_text()) == set()


def test_effects_of_a_module_are_found() -> None:
    assert effects("import os.path\nfrom time import monotonic\nasync def f():\n    await g()\n    open('x')") == {
        "os",
        "time",
        "await",
        "open",
    }


@pytest.mark.parametrize("path", OURS, ids=module_of)
def test_name_of_a_module_says_what_it_manages_decides_or_types(path: Path) -> None:
    """In the tabs of an editor, dozens of files of one name cannot be told apart."""
    assert path.stem not in {"manager", "types", "interfaces", "ports", "decide", "compute", "helpers", "util", "utils"}
    assert not path.stem.startswith(("decide_", "compute_")), "decisions belong in a package named plan"


@pytest.mark.parametrize("path", OURS, ids=module_of)
def test_no_file_is_longer_than_400_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400


LINES_OF_A_FUNCTION = 60


def long_functions(source: str) -> list[str]:
    """Return the names of functions that have too many lines, those of their docstrings and nested ones included."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= LINES_OF_A_FUNCTION
    ]


@pytest.mark.parametrize("path", OURS, ids=module_of)
def test_no_function_is_longer_than_60_lines(path: Path) -> None:
    assert long_functions(path.read_text()) == [], "split it by stage"


def test_long_functions_are_recognized() -> None:
    for lines, found in ((60, []), (61, ["work"])):
        assert long_functions("class A:\n    async def work(self):\n" + "        pass\n" * (lines - 1)) == found


@pytest.mark.parametrize(
    ("pattern", "allowed"),
    [
        (r"\bsubprocess\.(run|Popen|check_output|call)|asyncio\.create_subprocess", {"base/proc.py"}),
        (r"asyncio\.wait_for\(", set()),
        (r"\bimport ctypes|\bfrom ctypes", {"linux/libc.py"}),
        # Blocking calls of different pods never share threads: base/concurrency/blocking.py.
        (r"\b(to_thread|run_in_executor|set_default_executor)\b", set()),
        # A number may be another process's when the signal comes; only the parent of an unreaped child knows.
        (r"\bos\.(kill|killpg)\b", {"base/proc.py"}),
        (r"\bpidfd_send_signal\b", {"base/proc.py", "linux/pidfd.py", "criserver/spec/security/system_calls.py"}),
        # A caller that opens a process by its number must check that it is the one: `criserver.processes` does.
        (
            r"\bPidFd\(",
            {
                "criserver/processes.py",
                "criserver/conmon/find_and_kill.py",
                "criserver/embedded/supervisor.py",
                "criserver/streaming/commands/oci_session.py",
                "linux/cgroups/files.py",
            },
        ),
        # Text of others reaches a terminal through cli/terminal.py; the others print documents and marks of their own.
        (
            r"click\.s?echo",
            {
                "cli/terminal.py",
                "cli/output/output_form.py",
                "cli/commands/completion.py",
                "cli/commands/node/doctor.py",
            },
        ),
    ],
)
def test_restricted_calls_occur_only_in_their_modules(pattern: str, allowed: set[str]) -> None:
    product = SOURCE / "pykubelet"
    found = {
        str(path.relative_to(product))
        for path in OURS
        if "testing" not in path.parts and re.search(pattern, path.read_text())
    }
    assert found <= allowed


_READS = {"read_text", "read_bytes", "open", "iterdir", "glob", "listdir", "scandir", "readlink"}
_PROC_READERS = {
    "base/files/safe_path.py": "opens descriptors of its own again",
    "linux/procfs.py": "the one place",
    "linux/filesystems/mountinfo.py": "the mount table, which is read as bytes",
    "linux/memory.py": "the table of our own mappings",
    "linux/cgroups/migration.py": "its own cgroups, as bytes",
    "linux/system.py": "facts of the machine, below a root that tests choose",
    "criserver/netns/user_namespace.py": "writes the ids of a process, and reads nothing",
}


def _reads_proc(path: Path) -> list[int]:
    """The lines of calls that read or list something below /proc, directly or by a name of the module."""
    tree = ast.parse(path.read_text())
    named = {
        target.id
        for statement in tree.body
        if isinstance(statement, ast.Assign) and _mentions_proc(statement.value, set())
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if _name_of(call.func) in _READS and _mentions_proc(call, named)]


def _name_of(function: ast.expr) -> str:
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _mentions_proc(tree: ast.AST, named: set[str]) -> bool:
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if text == "/proc" or text.startswith("/proc/"):
                return True
            case ast.Name(id=name) if name in named:
                return True
    return False


def test_proc_is_read_in_one_place_only() -> None:
    product = SOURCE / "pykubelet"
    found = {
        f"{path.relative_to(product)}:{line}"
        for path in OURS
        if "testing" not in path.parts and str(path.relative_to(product)) not in _PROC_READERS
        for line in _reads_proc(path)
    }
    assert found == set(), "ask pykubelet.linux.procfs: what processes say of themselves is bytes"


def test_reads_of_proc_are_recognized(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '_P = Path("/proc")\n(_P / "1" / "stat").read_text()\nopen(f"/proc/{pid}/stat")\nopen("/etc/proc")\n'
    )
    assert _reads_proc(module) == [2, 3]


MODULES = [path for path in OURS if "testing" not in path.parts and path.stem != "__init__"]
UNIT_TESTS = Path(__file__).resolve().parent
OUTSIDE_THE_PACKAGE = {"benchmarks", "tools"}
"""Directories of tests of the directories of these names next to ``src``."""


def test_directories_of_unit_tests_mirror_the_source_tree() -> None:
    directories = {path.parent.relative_to(UNIT_TESTS) for path in UNIT_TESTS.rglob("*.py")}
    assert len(directories) > 60
    missing = {str(each) for each in directories if not (SOURCE / "pykubelet" / each).is_dir()}
    assert missing == OUTSIDE_THE_PACKAGE


def test_unit_tests_have_no_names_of_former_modules() -> None:
    names = [str(path.relative_to(UNIT_TESTS)) for path in UNIT_TESTS.rglob("test_*.py")]
    assert [name for name in names if re.search(r"/test_(decide|compute)(_|\.)", name)] == []


def _sleeps_or_waits(node: ast.AST) -> bool:
    """Whether a statement waits for an event with a time limit after which it goes on: a wake-or-sleep by hand."""
    if not isinstance(node, ast.Try) or len(node.body) != 1 or not isinstance(node.body[0], ast.AsyncWith):
        return False
    limited = any("asyncio.timeout(" in ast.unparse(each.context_expr) for each in node.body[0].items)
    waits = [ast.unparse(each) for each in node.body[0].body]
    handled = [ast.unparse(each.type) for each in node.handlers if each.type and _goes_on(each)]
    return limited and len(waits) == 1 and waits[0].endswith(".wait()") and "TimeoutError" in handled


def _goes_on(handler: ast.ExceptHandler) -> bool:
    return all(
        isinstance(each, ast.Pass | ast.Continue)
        or ast.unparse(each) == "return"
        or ast.unparse(each).endswith(".set()")
        for each in handler.body
    )


def test_wake_or_sleep_has_one_implementation() -> None:
    found = {
        f"{module_of(path)}:{getattr(node, 'lineno', 0)}"
        for path in OURS
        if "testing" not in path.parts
        for node in ast.walk(ast.parse(path.read_text()))
        if _sleeps_or_waits(node)
    }
    assert found == set(), "use pykubelet.base.concurrency.wakeup.Wakeup"


def test_wake_or_sleep_by_hand_is_recognized() -> None:
    code = "try:\n    async with asyncio.timeout(3):\n        await self._news.wait()\nexcept TimeoutError:\n    {}\n"
    assert any(map(_sleeps_or_waits, ast.walk(ast.parse(code.format("pass")))))
    assert not any(map(_sleeps_or_waits, ast.walk(ast.parse(code.format("raise Transient()")))))


MAX_MODULES = 15


def test_packages_have_few_modules() -> None:
    found = Counter(str(path.parent.relative_to(SOURCE / "pykubelet")) for path in MODULES)
    assert {name: number for name, number in found.items() if number > MAX_MODULES} == {}


def near_twins(names: Iterable[str]) -> list[str]:
    """Return the names of which another one is the plural, or that consist of the words of another one."""
    known = set(names)
    plurals = [name for name in known for end in ("s", "es") if name + end in known]
    words = Counter(tuple(sorted(name.split("_"))) for name in known)
    return sorted({*plurals, *(name for name in known if words[tuple(sorted(name.split("_")))] > 1)})


def test_modules_of_a_package_have_no_near_twins() -> None:
    packages = sorted({path.parent for path in MODULES})
    found = {str(each): near_twins(path.stem for path in MODULES if path.parent == each) for each in packages}
    assert {package: names for package, names in found.items() if names} == {}


def test_near_twins_are_recognized() -> None:
    assert near_twins(["device", "devices", "metrics_server", "server_metrics", "server"]) == [
        "device",
        "metrics_server",
        "server_metrics",
    ]


MIN_MODULES = 5
SMALL_PACKAGES = {
    "criserver/conmon": "conmon, as opposed to the shims",
    "criserver/container/processes": "what becomes of a container's processes, as opposed to its files",
    "criserver/metrics": "metrics of the server itself, as opposed to those of containers",
    "criserver/netns": "where namespaces are created",
    "criserver/reload": "what a reload of the server changes",
    "criserver/runtimes": "the interface of conmon and shims",
    "criserver/sandbox/state": "shared state, as in container/state",
    "criserver/streaming/commands": "how Exec runs its command; the package above is full",
    "criserver/embedded": "how the agent keeps the server running",
    "criserver/types": "values that all packages of the server know",
    "kubelet/actuate/cri_messages/environment": "where a container's environment is computed",
    "kubelet/actuate/logs": "where container logs are rotated",
    "kubelet/actuate/userns": "where pods get their user ids",
    "kubelet/compose/live_settings": "which components take changes; the package above is full",
    "kubelet/desired/changes": "what apply and delete write",
    "kubelet/desired/pods": "the pods that are wanted",
    "kubelet/reload": "what a reload of the agent does",
    "kubelet/report/explain": "what pykubelet explain shows",
    "kubelet/report/timeline": "what pykubelet timeline shows",
    "linux/dbus": "the only user of the D-Bus library",
}
"""Packages with fewer modules than ``MIN_MODULES``, those of their ``plan`` included, with the question that their
names answer. Packages of packages are not counted. Must only become fewer: otherwise merge it with its parent."""


def test_packages_have_enough_modules() -> None:
    number = Counter(str(path.parent.relative_to(SOURCE / "pykubelet")).removesuffix("/plan") for path in MODULES)
    parents = {str(Path(name).parent) for name in number}
    found = {name for name, modules in number.items() if modules < MIN_MODULES and name not in parents}
    assert found == SMALL_PACKAGES.keys(), "merge it with its parent or with a package beside it"


SMALL = 30
SMALL_MODULES = {
    "pykubelet.base.spdy.dictionary": "a table of the protocol, as the draft has it",
    "pykubelet.criserver.spec.exec": "the specification of an exec, beside that of a container",
    "pykubelet.criserver.types.userns": "user namespaces are neither stored records nor identifiers",
    "pykubelet.kubelet.compose.node.local_node_builder": "imported at the first request for the node",
    "pykubelet.kubelet.desired.manifest.validate.taints": "rules of a node, beside those of pods",
    "pykubelet.kubelet.desired.manifest.validate.rules": "the table of validators, which the package exports",
}
"""Modules below 30 lines with at most one user that are kept, with the reason. Those of ``plan``, interfaces, commands
and kinds of volumes are small on purpose: they are found by their names. Must only become fewer."""


def test_small_modules_have_more_than_one_user() -> None:
    users = Counter(name for path in OURS for name in imported(path))
    found = {
        module_of(path)
        for path in MODULES
        if len(path.read_text().splitlines()) < SMALL
        and users[module_of(path)] <= 1
        and path.parent.name not in {"plan", "kinds"}
        and "commands" not in path.parts
        and not path.stem.endswith(("_interfaces", "__main__"))
    }
    assert found == SMALL_MODULES.keys(), "merge it into its user"


def imported(path: Path) -> set[str]:
    """Return the modules that a module may import, by the names in its import statements."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom) and node.module]
    names = {f"{node.module}.{alias.name}" for node in nodes for alias in node.names}
    return names | {node.module or "" for node in nodes}


LINES_OF_A_COPY = 5
LINES_OF_A_LONG_STATEMENT = 8


def bodies(path: Path) -> list[tuple[str, str]]:
    """Return the names and bodies of a module's functions without constructors and short ones."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name != "__init__":
            statements = node.body[bool(ast.get_docstring(node)) :]
            text = "\n".join(map(ast.unparse, statements))
            lines = (node.end_lineno or 0) - statements[0].lineno + 1 if statements else 0
            if text.count("\n") >= LINES_OF_A_COPY - 1 or lines >= LINES_OF_A_LONG_STATEMENT:
                found.append((node.name, text))
    return found


def test_functions_have_one_implementation_each() -> None:
    found = [row for path in MODULES for row in bodies(path)]
    assert len(found) > 2000
    number = Counter(text for _, text in found)
    assert {name for name, text in found if number[text] > 1} == set(), "call one of them from the other place"


def test_copied_functions_are_recognized(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    long = "    a = 1\n    b = 2\n    c = 3\n    d = 4\n    return a + b\n"
    wide = "    return (\n" + "        1,\n" * 6 + "    )\n"
    path.write_text(
        f'def one():\n    """Text."""\n{long}async def two():\n{long}def short():\n    return 1\ndef wide():\n{wide}'
    )
    assert [name for name, _ in bodies(path)] == ["one", "two", "wide"]
    assert len({text for _, text in bodies(path)}) == 2


_SMALL_WORDS = {
    "a",
    "all",
    "an",
    "and",
    "at",
    "by",
    "for",
    "from",
    "in",
    "its",
    "no",
    "of",
    "on",
    "or",
    "own",
    "that",
    "the",
    "to",
    "with",
}


_RIDDLE = re.compile(r"^test_(what|who|why|how|where|when|which)_")


def says_no_result(name: str) -> bool:
    """Report whether a test's name lacks its subject (``test_what_is_missing``) or its result (``test_mounts``)."""
    return bool(_RIDDLE.match(name)) or len([word for word in name.split("_")[1:] if word not in _SMALL_WORDS]) < 3


def test_names_of_tests_say_what_is_expected() -> None:
    names = [
        node.name
        for path in UNIT_TESTS.parent.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]
    assert len(names) > 5000
    found = sorted(filter(says_no_result, names))
    assert found == [], "name a test test_<subject>_<condition>_<result>"


def test_names_of_tests_without_a_result_are_recognized() -> None:
    assert says_no_result("test_mounts") and says_no_result("test_the_mounts_of_a_pod")
    assert says_no_result("test_what_is_no_quantity_is_invalid") and says_no_result("test_how_full_a_volume_is")
    assert not says_no_result("test_mounts_are_listed")
