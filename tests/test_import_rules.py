"""Import rules and names, read from the code."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What each package may import of ours, besides itself.
_FRAMEWORK = {f"attribution_benchmarks/{name}" for name in ("beam", "core", "metrics", "serving", "stats")}
_COMMANDS = {*_FRAMEWORK, "attribution_benchmarks/cli"}
ALLOWED = {
    "attribution": set(),
    "attribution_benchmarks/drawing": set(),
    "attribution_benchmarks/stats": {"attribution"},
    "attribution_benchmarks/serving": {"attribution", "attribution_benchmarks/core"},
    "attribution_benchmarks/beam": {"attribution", *_FRAMEWORK},
    "attribution_benchmarks/core": {"attribution", *_COMMANDS},  # core/evaluate.py is a command
    "attribution_benchmarks/metrics": {"attribution", *_FRAMEWORK},
    "attribution_benchmarks/cli": {"attribution", *_FRAMEWORK},
    "attribution_benchmarks/exact": {"attribution", *_COMMANDS},
    "attribution_benchmarks/parts": {"attribution", "attribution_benchmarks/drawing", *_COMMANDS},
    "attribution_benchmarks/report": {"attribution", *_COMMANDS},
    "svea": {"attribution", *_COMMANDS},
    "bim": {"attribution", "attribution_benchmarks/drawing", *_COMMANDS},
    "clevr_xai": {"attribution", *_COMMANDS},
}
OURS = set(ALLOWED) | {"attribution_benchmarks", "scripts", "tools", "tests"}
# The file of attribution that may import tensorflow.python: what it needs has no public name.
GRAPH_INTERNALS = {"_tf_internals.py"}


def imported_modules(tree: ast.AST):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            if node.module != "attribution_benchmarks":  # its packages have rules each
                yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def package_of(name: str) -> str | None:
    """Return the package that a module's dotted name or a file's path belongs to; None if it is not ours."""
    parts = name.replace("/", ".").split(".")
    return next((package for package in ("/".join(parts[:2]), parts[0]) if package in OURS), None)


def our_files():
    return [path for package in ALLOWED for path in sorted((ROOT / package).rglob("*.py"))]


@pytest.mark.parametrize("path", our_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_package_imports_only_what_it_may(path):
    package = package_of(path.relative_to(ROOT).as_posix())
    modules = list(imported_modules(ast.parse(path.read_text())))
    packages = {package_of(module) for module in modules} - {None}
    assert packages <= ALLOWED[package] | {package}
    if not (package == "attribution" and path.name in GRAPH_INTERNALS):
        assert not [module for module in modules if module.startswith("tensorflow.python")]


@pytest.mark.parametrize("package", ["stats", "cli", "report", "beam"])
def test_packages_without_models_import_no_tensorflow(package):
    for path in (ROOT / "attribution_benchmarks" / package).rglob("*.py"):
        roots = {module.split(".")[0] for module in imported_modules(ast.parse(path.read_text()))}
        assert not roots & {"tensorflow", "keras"}, path


def test_beam_is_imported_by_the_pipeline_alone():
    for path in (ROOT / "attribution_benchmarks" / "beam").glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            roots = {module.split(".")[0] for module in imported_modules(node)} if _is_import(node) else set()
            assert "apache_beam" not in roots or path.stem == "pipeline", path


def test_asking_a_server_by_rest_needs_nothing_beside_numpy():
    """Only the stubs of gRPC import TensorFlow, and only when they are used."""
    for path in (ROOT / "attribution_benchmarks" / "serving").glob("*.py"):
        for node in ast.parse(path.read_text()).body:  # at the top of the file, not inside functions
            roots = {module.split(".")[0] for module in imported_modules(node)} if _is_import(node) else set()
            assert not roots & {"tensorflow", "tensorflow_serving", "keras", "grpc", "google"}, path


def _is_import(node):
    return isinstance(node, (ast.Import, ast.ImportFrom))


def test_no_module_has_a_vague_name():
    vague = {"utils", "util", "helpers", "helper", "misc", "common"}
    assert not [path for path in our_files() if path.stem in vague]


def test_the_framework_names_no_benchmark():
    """A fourth benchmark is a line of core/places.py, and changes nothing else outside its folder."""
    named = re.compile(r"\b(svea|bim|clevr_xai)\b|CLEVR|\bSVEA\b|\bBIM\b")
    for package in ("stats", "report", "beam", "core", "metrics"):
        for path in (ROOT / "attribution_benchmarks" / package).rglob("*.*"):
            if path.suffix in (".py", ".jinja") and path.name not in ("places.py", "registry.py"):
                assert not named.search(path.read_text()), path


PRINTS = {  # besides print_line and print_text themselves: the one last line of a command
    "attribution/errors.py": 2,
    "attribution/cli.py": 2,
}


def test_text_is_printed_with_control_characters_escaped():
    found = {}
    for path in our_files():
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        if number := sum(isinstance(function, ast.Name) and function.id == "print" for function in calls):
            found[path.relative_to(ROOT).as_posix()] = number
    assert found == PRINTS, "print with errors.print_line or print_text"


def test_package_changelog_and_citation_have_one_version():
    (version,) = re.findall('^__version__ = "(.+)"', (ROOT / "attribution/__init__.py").read_text(), re.MULTILINE)
    changelog = (ROOT / "CHANGELOG.md").read_text().replace("## Unreleased\n", "", 1)
    headings = re.findall(r"^## (\S+)(?: \((\S+)\))?$", changelog, re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text()
    assert headings[0][0] == version
    assert f"\nversion: {version}\n" in citation
    assert f'\ndate-released: "{headings[0][1]}"\n' in citation


TYPED = (  # whose public functions all tell their types; mypy checks them
    *("attribution", "attribution_benchmarks", "svea"),
    *("bim/scores.py", "clevr_xai/metrics.py"),
)


def public_functions(body, within_class=False):
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node.body, within_class=True)
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            arguments += [each for each in (node.args.vararg, node.args.kwarg) if each]
            if within_class:
                arguments = [each for each in arguments if each.arg not in ("self", "cls")]
            yield node.name, arguments, node.returns


@pytest.mark.parametrize("package", TYPED)
def test_every_public_function_tells_its_types(package):
    untyped = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in ([ROOT / package] if package.endswith(".py") else (ROOT / package).rglob("*.py"))
        for name, arguments, returned in public_functions(ast.parse(path.read_text()).body)
        if returned is None or any(each.annotation is None for each in arguments)
    ]
    assert not untyped
    assert (ROOT / package.split("/")[0] / "py.typed").exists()


@pytest.mark.parametrize(("listed", "least"), [("slow", 200), ("exhaustive", 20)])
def test_tests_that_are_listed_exist(listed, least):
    first, *names = (ROOT / f"tests/{listed}.txt").read_text().splitlines()
    assert first.startswith("#") and len(set(names)) == len(names) > least
    for name in names:
        file, _, function = name.partition("[")[0].partition("::")
        assert f"def {function}(" in (ROOT / file).read_text() or not function, name
