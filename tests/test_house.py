"""The import rules of the house, read from the code."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALLOWED = {
    "attribution_benchmarks/command_line": set(),
    "attribution": {"attribution_benchmarks/command_line"},
    "attribution_benchmarks/leaderboard": {"attribution_benchmarks/command_line"},
    "attribution_benchmarks/serving": {"attribution", "attribution_benchmarks/command_line"},
    "attribution_benchmarks/scale": {"attribution_benchmarks/leaderboard", "attribution_benchmarks/command_line"},
    "attribution_benchmarks/scoring": {
        "attribution",
        "attribution_benchmarks/scale",
        "attribution_benchmarks/leaderboard",
        "attribution_benchmarks/command_line",
    },
    "attribution_benchmarks/report": {
        "attribution",
        "attribution_benchmarks/scoring",
        "attribution_benchmarks/leaderboard",
        "attribution_benchmarks/command_line",
    },
    "svea": {
        "attribution",
        "attribution_benchmarks/scoring",
        "attribution_benchmarks/scale",
        "attribution_benchmarks/leaderboard",
        "attribution_benchmarks/command_line",
    },
    "bim": {
        "attribution",
        "attribution_benchmarks/scoring",
        "attribution_benchmarks/scale",
        "attribution_benchmarks/leaderboard",
        "attribution_benchmarks/serving",
        "attribution_benchmarks/command_line",
    },
    "clevr_xai": {
        "attribution",
        "attribution_benchmarks/scoring",
        "attribution_benchmarks/scale",
        "attribution_benchmarks/leaderboard",
        "attribution_benchmarks/command_line",
    },
    "exact": {
        "attribution",
        "attribution_benchmarks/scoring",
        "attribution_benchmarks/leaderboard",
        "attribution_benchmarks/command_line",
    },
}
HOUSE = set(ALLOWED) | {"scripts", "benchmarks", "tests"}
# The file of attribution that may touch tensorflow.python: what it needs of it has no public name.
GRAPH_INTERNALS = {"internals.py"}


def imported_modules(tree: ast.AST):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(name: str) -> str | None:
    """Return the room that a module's dotted name or a file's path belongs to; None outside the house."""
    parts = name.replace("/", ".").split(".")
    return next((room for room in ("/".join(parts[:2]), parts[0]) if room in HOUSE), None)


def house_files():
    return [path for room in ALLOWED for path in sorted((ROOT / room).rglob("*.py"))]


@pytest.mark.parametrize("path", house_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_imports_only_the_floors_below_it(path):
    room = room_of(path.relative_to(ROOT).as_posix())
    modules = list(imported_modules(ast.parse(path.read_text())))
    rooms = {room_of(module) for module in modules} - {None}
    assert rooms <= ALLOWED[room] | {room}
    if not (room == "attribution" and path.name in GRAPH_INTERNALS):
        assert not [module for module in modules if module.startswith("tensorflow.python")]


@pytest.mark.parametrize("room", ["leaderboard", "command_line", "report", "scale"])
def test_the_rooms_of_tables_know_no_tensorflow(room):
    for path in (ROOT / "attribution_benchmarks" / room).rglob("*.py"):
        roots = {module.split(".")[0] for module in imported_modules(ast.parse(path.read_text()))}
        assert not roots & {"tensorflow", "keras"}, path


def test_work_in_blocks_needs_no_beam_until_it_is_asked_for():
    for path in (ROOT / "attribution_benchmarks" / "scale").glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            roots = {module.split(".")[0] for module in imported_modules(node)} if _is_import(node) else set()
            assert "apache_beam" not in roots or path.stem == "pipeline", path


def test_asking_a_server_by_rest_needs_nothing_beside_numpy():
    """Only the stubs of gRPC and the stand-in server bring TensorFlow, and only when they are used."""
    for path in (ROOT / "attribution_benchmarks" / "serving").glob("*.py"):
        for node in ast.parse(path.read_text()).body:  # at the top of the file, not inside functions
            roots = {module.split(".")[0] for module in imported_modules(node)} if _is_import(node) else set()
            if path.stem not in ("stand_in_grpc", "stand_in_rest"):
                assert not roots & {"tensorflow", "tensorflow_serving", "keras", "grpc", "google"}, path


def _is_import(node):
    return isinstance(node, (ast.Import, ast.ImportFrom))


def test_no_room_hides_its_purpose_behind_an_empty_name():
    vague = {"utils", "util", "helpers", "helper", "misc", "common"}
    assert not [path for path in house_files() if path.stem in vague]


def test_shared_rooms_know_no_benchmark_by_name():
    """A fourth benchmark is a line of the registry, and changes nothing else outside its folder."""
    named = re.compile(r"\b(svea|bim|clevr_xai)\b|CLEVR|\bSVEA\b|\bBIM\b")
    for room in ("leaderboard", "report", "scale", "scoring"):
        for path in (ROOT / "attribution_benchmarks" / room).rglob("*.*"):
            if path.suffix in (".py", ".jinja") and path.name != "registry.py":
                assert not named.search(path.read_text()), path


PRINTS = {  # besides print_line and print_text themselves: the one last line of a command, and a redrawn status line
    "attribution_benchmarks/command_line/errors.py": 2,
    "attribution_benchmarks/command_line/run.py": 2,
    "attribution_benchmarks/report/progress.py": 2,
}


def test_text_is_printed_with_control_characters_escaped():
    found = {}
    for path in house_files():
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        if number := sum(isinstance(function, ast.Name) and function.id == "print" for function in calls):
            found[path.relative_to(ROOT).as_posix()] = number
    assert found == PRINTS, "print with command_line.print_line or print_text"


def setup_says(argument: str):
    return ast.literal_eval(
        next(
            keyword.value
            for node in ast.walk(ast.parse((ROOT / "setup.py").read_text()))
            if isinstance(node, ast.Call)
            for keyword in node.keywords
            if keyword.arg == argument
        )
    )


def test_setup_lists_every_package():
    listed = setup_says("packages")
    on_disk = {path.parent.relative_to(ROOT).as_posix() for path in house_files()}
    on_disk.add("attribution_benchmarks")
    assert {package.replace(".", "/") for package in listed} == on_disk


def test_setup_changelog_and_citation_tell_one_version():
    version = setup_says("version")
    changelog = (ROOT / "CHANGELOG.md").read_text().replace("## Unreleased\n", "", 1)
    headings = re.findall(r"^## (\S+)(?: \((\S+)\))?$", changelog, re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text()
    assert headings[0][0] == version
    assert f"\nversion: {version}\n" in citation
    assert f'\ndate-released: "{headings[0][1]}"\n' in citation


TYPED = (  # whose public functions all tell their types; mypy checks them
    *("attribution", "attribution_benchmarks", "svea", "exact"),
    *("bim/regions.py", "bim/scores.py", "clevr_xai/metrics.py", "clevr_xai/pooling.py"),
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


@pytest.mark.parametrize("room", TYPED)
def test_every_public_function_tells_its_types(room):
    untyped = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in ([ROOT / room] if room.endswith(".py") else (ROOT / room).rglob("*.py"))
        for name, arguments, returned in public_functions(ast.parse(path.read_text()).body)
        if returned is None or any(each.annotation is None for each in arguments)
    ]
    assert not untyped
    assert (ROOT / room.split("/")[0] / "py.typed").exists()
