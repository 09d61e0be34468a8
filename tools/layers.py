"""Circles of imports, arrows up and the command line in library modules, read from the syntax trees of all packages.

tests/test_layers.py holds them at none, and ``tools/measure.py --check`` counts them. Imports inside functions count.
Those for types alone (``if TYPE_CHECKING:``) count for the layers, but close no circle.
"""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator, Mapping, Sequence

TOP = pathlib.Path(__file__).resolve().parent.parent
# The layers of each installed package, from the bottom to the top. A module may import those of its own layer and of
# the layers below. A name is that of a module or of all modules of a package, ``__init__`` for the package itself; the
# longest name decides.
LAYERS = {
    "attribution": (
        ("errors",),
        ("files", "plugins", "reading", "remote_files", "tensorflow_log"),
        ("keras_models", "model_paths"),
        ("graph",),
        ("lrp",),
        ("model",),
        ("methods",),
        ("loading",),
        ("explain", "trial"),
        ("preprocessing",),
        ("explained_inputs",),
        ("plotting",),
        ("check_method", "export"),
        ("__init__",),
        ("cli",),
        ("check_method.__main__", "explain.__main__", "export.__main__", "inspect"),
    ),
    "attribution_benchmarks": (
        ("drawing", "stats"),
        (
            *("core.__init__", "core.batch", "core.bundled_models", "core.controls", "core.examples"),
            *("core.figures", "core.input_scores", "core.manifest"),
            *("core.metric", "core.random_weights", "core.store"),
        ),
        ("beam",),
        ("metrics",),
        ("core",),
        ("exact", "parts", "serving"),
        ("report",),
        ("choosing",),
        ("api",),
        ("__init__",),
        ("cli",),
        (
            *("__main__", "check_metric", "core.evaluate", "exact.evaluate", "exact.meta_evaluation"),
            *("choosing.__main__", "parts.evaluate", "report.reproduce", "serving.serve"),
        ),
    ),
    "bim": (
        ("__init__", "layout", "scores", "set_files"),
        ("synthetic",),
        ("construct",),
        ("dataset",),
        ("attributions", "models", "tfds_builder"),
        ("classifiers",),
        ("members", "served"),
        ("_table", "delta_patch", "settings"),
        ("_pictures", "evaluate", "tcav"),
        ("definition",),
        ("metrics", "run_tcav"),
    ),
    "clevr_xai": (
        ("__init__", "layout", "vocabulary"),
        ("methods", "programs", "relation_network"),
        ("generation",),
        ("masks",),
        ("dataset",),
        ("answering", "generation.generate", "metrics", "tfds_builder"),
        ("_commentary", "_pictures", "table"),
        ("settings",),
        ("evaluation",),
        ("definition", "training"),
        ("evaluate",),
    ),
    "svea": (
        ("__init__", "mnist1d"),
        ("baseline", "metrics", "mnist1d_tfds"),
        ("methods",),
        ("scoring", "settings"),
        ("_figures", "evaluation", "table"),
        ("definition",),
        ("benchmark",),
    ),
}
NOT_INSTALLED = ("research", "scripts", "tools")  # without layers; their circles count too
COMMAND_LINE = ("absl", "attribution.cli")
_COMMAND_LINE = tuple(f"{name}." for name in COMMAND_LINE)


def read(packages: Sequence[str], top: pathlib.Path = TOP) -> dict[str, ast.Module]:
    """Return the syntax tree of each module of some packages below a folder, by the module's name."""
    files = [file for package in packages for file in sorted((top / package).rglob("*.py"))]
    names = [".".join(file.relative_to(top).with_suffix("").parts).removesuffix(".__init__") for file in files]
    return {name: ast.parse(file.read_text()) for name, file in zip(names, files, strict=True)}


def imported(tree: ast.AST, types: bool) -> Iterator[str]:
    """Yield the names that a module imports, anywhere in it; with ``types`` also those for annotations alone.

    Raises
    ------
    ValueError
        For a relative import, whose name is unknown here.
    """
    if isinstance(tree, ast.If) and "TYPE_CHECKING" in ast.unparse(tree.test) and not types:
        return
    if isinstance(tree, ast.Import):
        yield from (alias.name for alias in tree.names)
    elif isinstance(tree, ast.ImportFrom):
        if tree.level:
            raise ValueError(f"'{ast.unparse(tree)}' is relative; write the whole name")
        yield from (f"{tree.module}.{alias.name}" for alias in tree.names)
    for child in ast.iter_child_nodes(tree):
        yield from imported(child, types)


def edges(trees: Mapping[str, ast.Module], types: bool = False) -> dict[str, set[str]]:
    """Return each module's name to those of the modules that it imports; packages above them do not count."""
    found = {}
    for module, tree in trees.items():
        resolved = (_module_of(name, trees) for name in imported(tree, types))
        found[module] = {name for name in resolved if name and name != module}
    return found


def _module_of(name: str, modules: Mapping[str, object]) -> str:
    """Return the module that a name is or is in; empty for one that is not of ours."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def circles(trees: Mapping[str, ast.Module]) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or through others."""
    known = edges(trees)
    reached = {module: _reached(known, module) for module in known}
    groups = {frozenset(one for one in reached[module] if module in reached[one]) for module in known}
    return sorted(sorted(group) for group in groups if group)


def _reached(known: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        new = known[ahead.pop()] - found
        found |= new
        ahead += new
    return found


def layer_of(module: str, layers: Sequence[Sequence[str]]) -> int | None:
    """Return the number of a module's layer, from 0 at the bottom; ``None`` if no layer names it."""
    _, _, name = module.partition(".")
    numbers = {entry: number for number, layer in enumerate(layers) for entry in layer}
    itself = f"{name}.__init__".lstrip(".")
    name = itself if itself in numbers else name
    while name and name not in numbers:
        name = name.rpartition(".")[0]
    return numbers.get(name)


def arrows_up(
    trees: Mapping[str, ast.Module], layers: Mapping[str, Sequence[Sequence[str]]] = LAYERS
) -> list[tuple[str, str]]:
    """Return the pairs of modules of which the first imports the second, of a higher layer of the same package.

    Raises
    ------
    ValueError
        If a module is in no layer.
    """
    numbers = {}
    for module in trees:
        package = module.split(".")[0]
        if package in layers:
            numbers[module] = layer_of(module, layers[package])
            if numbers[module] is None:
                raise ValueError(f"module {module} is in no layer")
    return [
        (module, other)
        for module, others in edges(trees, types=True).items()
        for other in sorted(others)
        if module.split(".")[0] == other.split(".")[0] in layers and numbers[module] < numbers[other]
    ]


def is_command(module: str, tree: ast.Module) -> bool:
    """Return whether a module can be run, or is of the command line itself."""
    is_run = any(isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) for node in tree.body)
    is_cli = module in COMMAND_LINE or module.startswith("attribution_benchmarks.cli.")
    return is_run or is_cli or module.rpartition(".")[2] == "__main__"


def with_command_line(trees: Mapping[str, ast.Module]) -> list[str]:
    """Return the modules of installed packages that import the command line without being commands."""
    return [
        module
        for module, tree in trees.items()
        if module.split(".")[0] in LAYERS
        and not is_command(module, tree)
        and any(f"{name}.".startswith(_COMMAND_LINE) for name in imported(tree, types=True))
    ]
