"""Rules of composition: how the components are constructed and connected."""

import ast
import builtins
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

from tests.unit.syntax import (
    CLASSES,
    COMPOSITION,
    PRODUCT,
    SOURCE,
    bases_of,
    fields,
    is_dataclass,
    is_struct,
    methods,
    module_of,
    name_of,
    record_options,
    tree_of,
)

MAX_METHODS: Final = 12

ONE_CLASS_PER_CALL: Final = ("criserver/container", "criserver/sandbox")
"""Packages of components with few methods that are constructed by keyword."""

CONSTRUCTED_BY_POSITION: Final = frozenset({"Container", "Sandbox", "AppArmorProfiles"})
"""Values and helpers of these packages. Must only become fewer."""

DAEMONS: Final = frozenset({"apiclient", "base", "criserver", "kubelet", "linux"})
"""Packages whose code stays in memory: their records are Structs, which take a fifth of a dataclass's memory."""

DATACLASSES: Final = frozenset(
    {
        "base.HelperLogin",
        "criserver.Key",
        "kubelet.ProviderAnswer",
        "kubelet.RegistryCredentials",
        "kubelet.Failure",
        "kubelet.Identity",
        "kubelet.Outcome",
        "kubelet.PodActions",
        "kubelet.SandboxVerdict",
        "kubelet.StepResult",
        "kubelet.AdmissionVerdict",
        "kubelet._Translation",
    }
)
"""Records with a field that is not shown, compared or passed, which a Struct cannot have."""


def test_records_of_the_daemons_are_structs() -> None:
    found = {
        name_of(path, node)
        for path in PRODUCT
        if path.relative_to(SOURCE).parts[1] in DAEMONS
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef) and is_dataclass(node)
    }
    assert found == DATACLASSES


REPLACES_DATACLASSES: Final = frozenset(
    {
        "pykubelet.cli.commands.node.doctor",
        "pykubelet.cli.live.plan.live_model",
        "pykubelet.cli.live.plan.view_state",
        "pykubelet.kubelet.actuate.images.plan.keyring",
        "pykubelet.kubelet.actuate.podruntime.plan.actions",
        "pykubelet.kubelet.actuate.podruntime.plan.resize",
    }
)
"""Modules that replace or list fields of dataclasses. Type checkers accept that for a Struct; it fails when it runs."""


def works_on_fields(node: ast.AST) -> bool:
    """Whether an import brings the functions of `dataclasses` that take any record."""
    names = {each.name for each in node.names} if isinstance(node, ast.Import | ast.ImportFrom) else set()
    if isinstance(node, ast.ImportFrom):
        return node.module == "dataclasses" and bool({"replace", "asdict", "astuple", "fields"} & names)
    return "dataclasses" in names


def test_structs_are_not_changed_by_replace_of_dataclasses() -> None:
    found = {module_of(path) for path in PRODUCT for node in ast.walk(tree_of(path)) if works_on_fields(node)}
    assert found == REPLACES_DATACLASSES


def components() -> Iterator[tuple[str, ast.ClassDef]]:
    for package in ONE_CLASS_PER_CALL:
        for path in sorted((SOURCE / "pykubelet" / package).rglob("*.py")):
            for node in tree_of(path).body:
                if isinstance(node, ast.ClassDef):
                    yield f"{module_of(path)}.{node.name}", node


def test_components_of_calls_are_constructed_by_keyword() -> None:
    by_position = {
        node.name
        for _, node in components()
        if "__init__" in methods(node) and len(methods(node)["__init__"].args.args) > 1
    }
    assert by_position == CONSTRUCTED_BY_POSITION


def test_components_of_calls_have_few_public_methods() -> None:
    numbers = {name: sum(not each.startswith("_") for each in methods(node)) for name, node in components()}
    assert len(numbers) > 30
    assert {name: number for name, number in numbers.items() if number > MAX_METHODS} == {}


MAX_POSITIONAL: Final = 2


BASES: Final = {node.name: bases_of(node) for _, node in CLASSES}


def is_exception(name: str) -> bool:
    known = getattr(builtins, name, None)
    if isinstance(known, type):
        return issubclass(known, BaseException)
    return any(is_exception(base) for base in BASES.get(name, ()) if base != name)


def takes_too_many_by_position(node: ast.ClassDef) -> bool:
    """Whether a component takes more than two values by position, so that similar ones can be swapped in silence.

    A component is a class with a constructor of its own, or a record with an asynchronous method: a record
    without one is a value. Exceptions are constructed where they are raised.
    """
    if is_exception(node.name):
        return False
    constructor = methods(node).get("__init__")
    if constructor is not None:
        return len(constructor.args.posonlyargs + constructor.args.args) - 1 > MAX_POSITIONAL
    acts = any(isinstance(each, ast.AsyncFunctionDef) for each in methods(node).values())
    by_position = not record_options(node).get("kw_only")
    return (is_struct(node) or is_dataclass(node)) and acts and by_position and len(fields(node)) > MAX_POSITIONAL


def test_components_take_more_than_two_values_by_keyword() -> None:
    assert len(CLASSES) > 1000
    assert [f"{module}.{node.name}" for module, node in CLASSES if takes_too_many_by_position(node)] == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("class A:\n    def __init__(self, a, b, c): ...", True),
        ("class A:\n    def __init__(self, a, b, *, c, d): ...", False),
        ("class A(ValueError):\n    def __init__(self, a, b, c): ...", False),
        ("class A(Struct):\n    a: int\n    b: int\n    c: int\n    async def run(self): ...", True),
        ("class A(Struct, kw_only=True):\n    a: int\n    b: int\n    c: int\n    async def run(self): ...", False),
        ("@dataclass(frozen=True)\nclass A:\n    a: int\n    b: int\n    c: int\n    async def run(self): ...", True),
        ("@dataclass(kw_only=True)\nclass A:\n    a: int\n    b: int\n    c: int\n    async def run(self): ...", False),
        ("@dataclass\nclass A:\n    a: int\n    b: int\n    c: int\n    def size(self): ...", False),
    ],
)
def test_components_with_positional_values_are_recognized(
    code: str, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = ast.parse(code).body[0]
    assert isinstance(node, ast.ClassDef)
    monkeypatch.setitem(BASES, node.name, [ast.unparse(base) for base in node.bases])
    assert takes_too_many_by_position(node) is found


_ASSIGN: Final = (ast.AugAssign, ast.AnnAssign)


def found(pattern: Callable[[ast.AST], bool]) -> list[str]:
    """Return the places in the composition of both daemons where a node of the syntax tree matches."""
    return [
        f"{module_of(path)}:{getattr(node, 'lineno', 0)}"
        for path in COMPOSITION
        for node in ast.walk(tree_of(path))
        if pattern(node)
    ]


def test_composition_passes_no_unpacked_positional_arguments() -> None:
    assert found(lambda n: isinstance(n, ast.Call) and any(isinstance(a, ast.Starred) for a in n.args)) == []


def test_composition_changes_no_component_after_its_construction() -> None:
    def assigns(node: ast.AST) -> bool:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, _ASSIGN) else []
        return any(isinstance(t, ast.Attribute) and ast.unparse(t.value) != "self" for t in targets)

    def sets(node: ast.AST) -> bool:
        name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        return name.startswith(("set_", "on_", "report_to")) and name != "on_hung"

    assert found(lambda node: assigns(node) or sets(node)) == []


def test_composition_has_no_lambda_that_reads_a_value_later() -> None:
    """A lambda may only use its own parameters: what it captures is hidden from the reader of the call."""

    def late(node: ast.AST) -> bool:
        if not isinstance(node, ast.Lambda):
            return False
        own = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        return any(isinstance(each, ast.Name) and each.id not in own for each in ast.walk(node.body))

    assert found(late) == []


NESTED: Final = frozenset(
    {
        # Counts the first event of one stream, whose function it gets when the stream begins.
        "pykubelet.kubelet.compose.adapters.measured_events",
        # A context manager: its timer closes what the same block has opened.
        "pykubelet.kubelet.compose.live_settings.held_ports.held_ports",
    }
)
"""Builders with a function in them that reads values later. Must only become fewer."""


def has_nested_function(builder: ast.AST) -> bool:
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node is not builder for node in ast.walk(builder)
    )


def test_builders_have_no_function_that_reads_a_value_later() -> None:
    """A method, or a partial call of a function of the module, shows what is read."""
    nested = {
        f"{module_of(path)}.{node.name}"
        for path in COMPOSITION
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and has_nested_function(node)
    }
    assert nested == NESTED


def subscribes(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "subscribe"


def late_subscriptions(tree: ast.Module) -> list[int]:
    """Return the lines that subscribe to an event, except in constructors, where components subscribe themselves."""
    constructors = [
        method
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for name, method in methods(node).items()
        if name in {"__init__", "__post_init__"}
    ]
    own = {id(node) for constructor in constructors for node in ast.walk(constructor)}
    return sorted(getattr(node, "lineno", 0) for node in ast.walk(tree) if subscribes(node) and id(node) not in own)


def test_components_subscribe_in_their_constructors() -> None:
    assert [f"{module_of(path)}:{line}" for path in COMPOSITION for line in late_subscriptions(tree_of(path))] == []


def test_late_reads_and_subscriptions_are_recognized() -> None:
    tree = ast.parse(
        """
class Part:
    def __init__(self, event): event.subscribe(self.poke)
    def start(self, event): event.subscribe(self.poke)
def build(event):
    part = Part(event)
    event.subscribe(part.poke)
    def current(): return part.value
    return Other(current)
def build_other(part): return Other(part.current)
"""
    )
    assert late_subscriptions(tree) == [4, 7]
    assert has_nested_function(tree.body[1]) and not has_nested_function(tree.body[2])


MODULES: Final = {module_of(path).removesuffix(".__init__"): path for path in SOURCE.rglob("*.py")}
AROUND: Final = {
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for directory in ("benchmarks", "tools", "tests")
    for path in (SOURCE.parent / directory).rglob("*.py")
}
"""The modules beside the product."""


def imports(path: Path, known: Mapping[str, Path] = MODULES) -> set[str]:
    """Return the modules of the project that a module imports anywhere, also for types only or within a function."""
    modules: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                modules.add(inner if inner in known else node.module)
    return modules & known.keys()


def test_no_module_is_in_an_import_cycle_even_for_types() -> None:
    graph = {name: imports(path) - {name} for name, path in MODULES.items()}
    assert sum(map(len, graph.values())) > 3000
    tuple(TopologicalSorter(graph).static_order())


def test_benchmarks_tools_and_tests_have_no_import_cycle() -> None:
    graph = {name: imports(path, AROUND) - {name} for name, path in AROUND.items()}
    assert sum(map(len, graph.values())) > 300
    tuple(TopologicalSorter(graph).static_order())


STAGES: Final = ("desired", "control", "actuate", "observe", "report", "serve")


KUBELET: Final = SOURCE / "pykubelet/kubelet"


MAIN_IMPORTS: Final = (
    "pykubelet.base",
    "pykubelet.kubelet.compose",
    "pykubelet.kubelet.config",
    "pykubelet.kubelet.reload",
)


def test_main_only_runs() -> None:
    """It imports no stage and no values that stages exchange, so that it cannot decide what they do or report."""
    main = KUBELET / "main.py"
    assert [name for name in imports(main) if not name.startswith(MAIN_IMPORTS)] == []
    functions = [node for node in ast.walk(tree_of(main)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert len(functions) == len([node for node in functions if node in tree_of(main).body]), "nested functions"


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_has_one_builder_that_is_called_once(stage: str) -> None:
    """The module of a stage in ``compose`` has one public function, which builds all of the stage's components."""
    builder = f"build_{stage}"
    assert public_functions(tree_of(KUBELET / f"compose/{stage}.py")) == [builder]
    places = [f"{module_of(path)}:{line}" for path in PRODUCT for line in uses_of(builder, tree_of(path))]
    assert len(places) == 1, places
    path = MODULES[places[0].partition(":")[0]]
    assert path.parent == KUBELET / "compose"


def test_components_of_a_stage_are_one_record_that_never_changes() -> None:
    for stage in STAGES:
        tree = tree_of(KUBELET / f"compose/{stage}.py")
        (builder,) = (each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name[0] != "_")
        returned = ast.unparse(builder.returns) if builder.returns is not None else ""
        (record,) = (node for _, node in CLASSES if node.name == returned)
        assert is_struct(record), stage
        assert record_options(record) == {"frozen": True, "kw_only": True}, stage


def public_functions(tree: ast.Module) -> list[str]:
    functions = (each for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    return [each.name for each in functions if not each.name.startswith("_")]


def uses_of(name: str, tree: ast.Module) -> list[int]:
    """Return the lines where a function is called or passed on, by its name or as an attribute of its module."""
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute))
    return [node.lineno for node in found if (node.id if isinstance(node, ast.Name) else node.attr) == name]


def test_uses_of_a_builder_are_recognized() -> None:
    tree = ast.parse(
        """
from compose.a import build_a
def build_b():
    first = build_a()
    return first, partial(build_a, 1), a.build_a(2)
"""
    )
    assert uses_of("build_a", tree) == [4, 5, 5]
    assert public_functions(tree) == ["build_b"]


MANY_METHODS: Final[Mapping[str, int]] = {
    # The use of objects by pods, and one method for each kind of object, which asks the component of that kind.
    "pykubelet.kubelet.desired.objects.cluster.ClusterObjects": 13,
}
"""Classes with more public methods than `MAX_METHODS`, with the number that they may have. Must only become fewer."""


def test_classes_have_few_public_methods() -> None:
    numbers = {
        f"{module}.{node.name}": sum(is_public_method(each) for each in methods(node).values())
        for module, node in CLASSES
        if "Protocol" not in bases_of(node)
    }
    assert {name for name, number in numbers.items() if number > MANY_METHODS.get(name, MAX_METHODS)} == set()
    assert {name for name in MANY_METHODS if numbers.get(name, 0) <= MAX_METHODS} == set(), "no longer exceptions"


SHARED_NAMES: Final = frozenset({"Source"})
"""Names of two public classes of the kubelet: sources of pods, and of volumes. Must only become fewer."""


def test_public_classes_are_distinguished_by_their_names() -> None:
    """A name has at most one class in each package below the root, and at most two in all: interfaces have the name
    of what implements them, and the two daemons do not import each other."""
    places: dict[str, list[str]] = {}
    for module, node in CLASSES:
        if not node.name.startswith("_") and "Protocol" not in bases_of(node):
            places.setdefault(node.name, []).append(module.split(".")[1])
    shared = {name for name, found in places.items() if len(found) > 2 or max(Counter(found).values()) > 1}
    assert shared == SHARED_NAMES, "say which kind, request, verdict … it is"


def is_public_method(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return not function.name.startswith("_") and not is_property(function)


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(each) == "property" for each in function.decorator_list)


@pytest.mark.parametrize(
    ("package", "calls"),
    [
        ("container", "create start stop remove exec update recover"),
        ("sandbox", "run stop remove recover"),
    ],
)
def test_module_of_a_call_is_found_by_its_name(package: str, calls: str) -> None:
    there = {path.stem for path in (SOURCE / "pykubelet/criserver" / package).glob("*.py")}
    assert set(calls.split()) <= there
