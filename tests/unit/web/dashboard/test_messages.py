"""Messages that redirects leave for the next page: each name in the code has one, and each message is used."""

import ast
from collections.abc import Iterator
from pathlib import Path

from daybreak.web.dashboard.rendering import FLASH_MESSAGES

NAME = "done"
QUERY = f"?{NAME}="


def positions(tree: ast.Module) -> dict[str, int]:
    """Return the functions and classes of a module with a parameter or field `done`, and its position in calls."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [each.arg for each in node.args.args if each.arg != "self"]
        elif isinstance(node, ast.ClassDef):
            names = [ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)]
        else:
            continue
        if NAME in names:
            found[node.name] = names.index(NAME)
    return found


def names_in(tree: ast.Module) -> Iterator[str]:
    """Yield the texts that a module passes as `done`: as an argument, in a query, or in a dictionary of parameters."""
    at = positions(tree)
    for node in ast.walk(tree):
        values: list[ast.expr] = []
        if isinstance(node, ast.Call):
            values += [each.value for each in node.keywords if each.arg == NAME]
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            values += node.args[at[called] : at[called] + 1] if called in at else []
        elif isinstance(node, ast.Dict):
            keys = [each.value if isinstance(each, ast.Constant) else None for each in node.keys]
            values += [value for key, value in zip(keys, node.values, strict=True) if key == NAME]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and QUERY in node.value:
            values.append(ast.Constant(node.value.partition(QUERY)[2]))
        for value in values:
            yield from texts_of(value)


def texts_of(value: ast.expr) -> Iterator[str]:
    """Yield the texts that an expression can be."""
    if isinstance(value, ast.IfExp):
        yield from texts_of(value.body)
        yield from texts_of(value.orelse)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value


def test_every_redirect_has_a_message_and_every_message_a_redirect(project_folder: Path) -> None:
    folder = project_folder / "src/daybreak/web/dashboard"
    trees = [ast.parse(path.read_text("utf-8")) for path in sorted(folder.rglob("*.py"))]
    assert {name for tree in trees for name in names_in(tree)} - {""} == FLASH_MESSAGES.keys()
