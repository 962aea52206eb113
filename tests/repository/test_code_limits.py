"""Upper bounds on the length of functions and signatures."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_FUNCTION_LINES = 50
MAX_PARAMETERS = 7
FOLDERS = ("src", "benchmarks", "tools")
# A migration describes one schema in full and is never edited, so the limits do not apply.
EXEMPT_FOLDER = "src/daybreak/state/migrations/versions/"


@dataclass(frozen=True, slots=True)
class Function:
    """A function or method, without `self` and `cls` among its parameters."""

    name: str
    lines: int
    parameters: int

    def over_a_limit(self) -> bool:
        return self.lines > MAX_FUNCTION_LINES or self.parameters > MAX_PARAMETERS


def functions_in(source: str) -> Iterator[Function]:
    """Yield every function of a module, including nested functions and methods."""

    def visit(node: ast.AST, scope: str) -> Iterator[Function]:
        for child in ast.iter_child_nodes(node):
            inner = scope
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{scope}{child.name}."
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (child.end_lineno or child.lineno) - child.lineno + 1
                yield Function(f"{scope}{child.name}", lines, len(_parameters(child.args)))
            yield from visit(child, inner)

    yield from visit(ast.parse(source), "")


def _parameters(arguments: ast.arguments) -> list[str]:
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    parameters += [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [argument.arg for argument in parameters if argument.arg not in {"self", "cls"}]


def functions_over_a_limit() -> dict[str, Function]:
    found = {}
    for path in (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(EXEMPT_FOLDER):
            over = (each for each in functions_in(path.read_text("utf-8")) if each.over_a_limit())
            found.update({f"{name}::{each.name}": each for each in over})
    return found


def test_functions_and_signatures_stay_short() -> None:
    assert functions_over_a_limit() == {}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(a, b): ...", Function("f", 1, 2)),
        ("class C:\n    async def m(self, a, /, *args, b=1, **rest):\n        pass", Function("C.m", 2, 4)),
        ("def f():\n    x = 1\n    def g(): ...\n    return g", Function("f", 4, 0)),
    ],
)
def test_lines_and_parameters_are_counted(source: str, expected: Function) -> None:
    assert expected in list(functions_in(source))


def test_nested_functions_are_found() -> None:
    assert [each.name for each in functions_in("def f():\n    if 1:\n        def g(): ...")] == ["f", "f.g"]
