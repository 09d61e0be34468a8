"""A Python file taken apart: what it defines, what it imports, what it does when imported, and what each part names."""

from __future__ import annotations

import ast
import collections
import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator

# Decorators that leave no trace but the function they return; any other may enter it into a list somewhere.
_TRACELESS = {"property", "staticmethod", "classmethod"}
_TRACELESS_LIBRARIES = {"abc", "contextlib", "dataclasses", "enum", "functools", "typing"}
_COMPOUND = (ast.If, ast.Try, ast.With, ast.For, ast.While, *([ast.TryStar] if hasattr(ast, "TryStar") else []))
_WHOLE_MODULE = {"globals", "locals", "vars", "eval", "exec"}  # with these, code may reach any name of its module


@dataclasses.dataclass(frozen=True)
class Import:
    """What an imported name stands for: a module, or an attribute of one."""

    module: str
    attribute: str | None = None

    def __str__(self):
        return ".".join(filter(None, (self.module, self.attribute)))


@dataclasses.dataclass(frozen=True)
class Use:
    """A name that code reads from outside itself, with the attributes read from it: ``regions.PERCENTILE``.

    ``name`` is a name of the file's, or what a function imported inside itself.
    """

    name: str | Import
    attributes: tuple[str, ...] = ()

    def __str__(self):
        return ".".join((str(self.name), *self.attributes))


class SourceFile:
    """A module's code by what its top level defines.

    Parameters
    ----------
    name
        Dotted name, by which relative imports are resolved.
    path
        The file.

    Attributes
    ----------
    definitions : dict[str, list[ast.stmt]]
        Name -> the statements that give it its value.
    imports : dict[str, Import]
        Name -> what it was imported as.
    stars : list[str]
        Modules of which everything is imported.
    effects : list[ast.stmt]
        Statements that do something else when the module is imported.
    """

    def __init__(self, name: str, path: pathlib.Path):
        self.name, self.path = name, path
        self.is_package = path.name == "__init__.py"
        self.definitions: dict[str, list[ast.stmt]] = collections.defaultdict(list)
        self.imports: dict[str, Import] = {}
        self.stars: list[str] = []
        self.effects: list[ast.stmt] = []
        tree = ast.parse(path.read_bytes())
        for statement in tree.body:
            self._enter(statement)
        nodes = _all_nodes(tree)
        if any(isinstance(node, ast.Global) for node in nodes):
            for node in nodes:
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    for name in _declared_global(node.body):
                        self.definitions[name].append(_around(node, tree))
        self.definitions = dict(self.definitions)
        if not self.is_package:
            self.effects += self._unused_imports(tree, nodes)

    def at_line(self, line: int) -> list[str]:
        """Return the names that the statement on a line defines; none where it defines nothing."""
        return [
            name
            for name, statements in self.definitions.items()
            if any(statement.lineno <= line <= (statement.end_lineno or line) for statement in statements)
        ]

    def imported(self, statement: ast.stmt) -> Iterator[tuple[str, Import]]:
        """Yield what a statement of an import binds; of ``*``, the name is ``*``."""
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                first = alias.name.split(".")[0]
                yield (alias.asname, Import(alias.name)) if alias.asname else (first, Import(first))
        elif isinstance(statement, ast.ImportFrom):
            module = statement.module or ""
            if statement.level:
                parents = self.name.split(".")
                parents = parents[: len(parents) - statement.level + self.is_package]
                module = ".".join([*parents, *([module] if module else [])])
            for alias in statement.names:
                yield alias.asname or alias.name, Import(module, alias.name)

    def text(self, statements: list[ast.stmt]) -> str:
        """Return statements without what changes no result: comments, docstrings, layout, types of arguments."""
        with _bare(statements):
            return "\n".join(map(ast.unparse, statements))

    def uses(self, statements: list[ast.stmt]) -> tuple[set[Use], set[Use]]:
        """Return what statements name outside themselves: in their code, and in the types of arguments alone."""
        reader = _Reader(self)
        for statement in statements:
            reader.visit(statement)
        return reader.found, reader.types - reader.found

    def _enter(self, statement: ast.stmt) -> None:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self.definitions[statement.name].append(statement)
            if not all(map(self._is_traceless, statement.decorator_list)):
                self.effects.append(statement)
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            for name, imported in self.imported(statement):
                if name == "*":
                    self.stars.append(imported.module)
                else:
                    self.imports[name] = imported
        elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if isinstance(target, (ast.Attribute, ast.Subscript)):
                    self.effects.append(statement)  # of something that stands elsewhere, perhaps in another module
                for node in ast.walk(target):
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                        self.definitions[node.id].append(statement)
        elif isinstance(statement, _COMPOUND) and not _is_main(statement):
            if not _is_for_types(statement):
                self.effects.append(statement)
            for node in _top_level(statement):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    self._enter(node)
                elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    self.definitions[node.name].append(statement)
                elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    self.definitions[node.id].append(statement)
        elif not isinstance(statement, ast.Pass) and not _is_constant(statement) and not _is_main(statement):
            self.effects.append(statement)

    def _is_traceless(self, decorator: ast.expr) -> bool:
        if isinstance(decorator, ast.Call):
            decorator = decorator.func
        names = ast.unparse(decorator).split(".")
        origin = str(self.imports.get(names[0], ""))
        return names[0] in _TRACELESS or origin.split(".")[0] in _TRACELESS_LIBRARIES or names == ["tf", "function"]

    def _unused_imports(self, tree: ast.Module, nodes: list[ast.AST]) -> list[ast.stmt]:
        """Return the imports whose names the file never reads: what they are for happens when they are imported."""
        read = {node.id for node in nodes if isinstance(node, ast.Name)}
        listed = {node.value for node in nodes if isinstance(node, ast.Constant) and node.value in self.imports}
        return [
            statement
            for statement in tree.body
            for name, target in self.imported(statement)
            if name != "*" and target.module != "__future__" and name not in read | listed
        ]


class _Reader(ast.NodeVisitor):
    """Collect the names that code reads and does not define itself."""

    def __init__(self, file: SourceFile):
        self.file = file
        self.found: set[Use] = set()
        self.types: set[Use] = set()
        self._in_types = False
        self._scopes: list[dict[str, Import | None]] = []

    def visit_Name(self, node):
        self._use(node.id, ())

    def visit_Attribute(self, node):
        attributes, base = [], node
        while isinstance(base, ast.Attribute):
            attributes.insert(0, base.attr)
            base = base.value
        if isinstance(base, ast.Name):
            self._use(base.id, tuple(attributes))
        else:
            self.visit(base)

    def visit_Import(self, node):
        for name, target in self.file.imported(node):
            if not self._scopes:  # of a statement for its effects
                self._add(Use(target))
            elif name == "*":
                self._add(Use(Import(target.module)))

    visit_ImportFrom = visit_Import

    def visit_Call(self, node):
        """Follow ``importlib.import_module("a.b")``, as far as the name stands there."""
        called = ast.unparse(node.func).split(".")[-1] if isinstance(node.func, (ast.Name, ast.Attribute)) else ""
        if called in ("import_module", "__import__") and node.args and isinstance(node.args[0], ast.Constant):
            self._add(Use(Import(str(node.args[0].value))))
        if called in _WHOLE_MODULE and isinstance(node.func, ast.Name):
            self._add(Use(Import(self.file.name)))
        self.generic_visit(node)

    def visit_FunctionDef(self, node):
        for part in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(part)
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        arguments = [argument for argument in arguments if argument]
        for annotation in (*(argument.annotation for argument in arguments), node.returns):
            self._visit_type(annotation)
        self._inside(self._bound(node.body, arguments), node.body)
        read = {part.id for part in _all_nodes(node) if isinstance(part, ast.Name)}
        for statement in _own_nodes(node.body):  # imported for what happens then
            self.found |= {Use(target) for name, target in self.file.imported(statement) if name not in read | {"*"}}

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node):
        for part in (*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)):
            self.visit(part)
        self._inside(_ClassScope(self._bound(node.body, [])), node.body)

    def visit_Lambda(self, node):
        for part in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(part)
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        self._inside({argument.arg: None for argument in arguments if argument}, [node.body])

    def _visit_comprehension(self, node):
        names = {
            part.id: None
            for generator in node.generators
            for part in ast.walk(generator.target)
            if isinstance(part, ast.Name)
        }
        self.visit(node.generators[0].iter)  # read outside, where the names do not stand for the loop's
        rest = [part for generator in node.generators for part in (generator.target, *generator.ifs)]
        rest += [generator.iter for generator in node.generators[1:]]
        values = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self._inside(names, [*rest, *values])

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension

    def visit_AnnAssign(self, node):
        self._visit_type(node.annotation)
        self.visit(node.target)
        if node.value:
            self.visit(node.value)

    def _visit_type(self, annotation):
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            try:
                annotation = ast.parse(annotation.value, mode="eval").body
            except SyntaxError:
                return
        if annotation is not None:
            before, self._in_types = self._in_types, True
            self.visit(annotation)
            self._in_types = before

    def _inside(self, scope, nodes):
        self._scopes.append(scope)
        for node in nodes:
            self.visit(node)
        self._scopes.pop()

    def _bound(self, body, arguments) -> dict[str, Import | None]:
        """Return the names that a function or a class binds: None, or what it imported."""
        scope: dict[str, Import | None] = {argument.arg: None for argument in arguments}
        nodes = list(_own_nodes(body))
        loops = {id(part) for node in nodes if isinstance(node, ast.comprehension) for part in ast.walk(node.target)}
        for node in nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                scope.update(self.file.imported(node))
            elif isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Store) and id(node) not in loops:
                    scope.setdefault(node.id)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                scope.setdefault(node.name)
            elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
                scope.setdefault(node.name or "")
            elif isinstance(node, ast.MatchMapping):
                scope.setdefault(node.rest or "")
        for name in _declared_global(body):
            scope.pop(name, None)
        return scope

    def _use(self, name, attributes):
        for scope in reversed(self._scopes):
            if isinstance(scope, _ClassScope) and scope is not self._scopes[-1]:
                continue  # a class's names are not seen inside its functions
            if name in scope:
                if scope[name] is not None:
                    self._add(Use(scope[name], attributes))
                return
        self._add(Use(name, attributes))

    def _add(self, use):
        (self.types if self._in_types else self.found).add(use)


class _ClassScope(dict):
    """The names bound in a class's body."""


@contextlib.contextmanager
def _bare(statements: list[ast.stmt]) -> Iterator[None]:
    """Take docstrings and the types of arguments out of code for a while."""
    taken = []

    def take(node, field, rest):
        taken.append((node, field, getattr(node, field)))
        setattr(node, field, rest)

    for node in [node for statement in statements for node in _all_nodes(statement)]:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            take(node, "body", [part for part in node.body if not _is_constant(part)] or [ast.Pass()])
        # A function may be chosen by the types of its arguments: functools.singledispatch.
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not any(
            ast.unparse(decorator).endswith(".register") for decorator in node.decorator_list
        ):
            take(node, "returns", None)
            for argument in (part for part in ast.walk(node.args) if isinstance(part, ast.arg)):
                take(argument, "annotation", None)
    try:
        yield
    finally:
        for node, field, value in reversed(taken):
            setattr(node, field, value)


def _is_constant(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_main(statement: ast.stmt) -> bool:
    """Return whether a statement is what a file does when it is run: ``if __name__ == "__main__"``."""
    return isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)


def _is_for_types(statement: ast.stmt) -> bool:
    """Return whether a statement counts for type checkers alone: ``if TYPE_CHECKING``."""
    return isinstance(statement, ast.If) and ast.unparse(statement.test).endswith("TYPE_CHECKING")


def _declared_global(body) -> list[str]:
    return [name for node in _own_nodes(body) if isinstance(node, ast.Global) for name in node.names]


def _children(node: ast.AST) -> list[ast.AST]:
    """Return what ``ast.iter_child_nodes`` yields, which takes most of the time that a whole house takes."""
    found = []
    for value in vars(node).values():
        if isinstance(value, list):
            found += [each for each in value if isinstance(each, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def _all_nodes(node: ast.AST) -> list[ast.AST]:
    """Return a node and all below it, as ``ast.walk`` yields them."""
    found = [node]
    for each in found:
        found += _children(each)
    return found


def _own_nodes(statements) -> Iterator[ast.AST]:
    """Yield the nodes of a function's body, not those of functions and classes inside it."""
    waiting = list(statements)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting += _children(node)


def _top_level(statement) -> Iterator[ast.AST]:
    """Yield the nodes inside a compound statement that belong to the module's own scope."""
    yield from _own_nodes(list(ast.iter_child_nodes(statement)))


def _around(node: ast.AST, tree: ast.Module) -> ast.stmt:
    """Return the top-level statement that holds a node."""
    return next(statement for statement in tree.body if any(child is node for child in ast.walk(statement)))
