"""The pages with code: it runs, in order, and prints what they say; the stubs are those of the module."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import pathlib
import re
from typing import Any

import pytest
import zerolag
from zerolag import _zerolag

BLOCK = re.compile(r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", re.DOTALL)


@pytest.mark.parametrize("page", ["docs/how-to/python.md", "docs/tutorial/researcher.md"])
def test_the_code_of_a_page_prints_what_the_page_says(page: str, tmp_path: pathlib.Path) -> None:
    names: dict[str, Any] = {"scratch": tmp_path, "__name__": "__main__"}
    blocks = BLOCK.findall(pathlib.Path(page).read_text())
    assert len(blocks) >= 5, "the page has code"
    for code, expected in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), names)
        if expected:
            assert printed.getvalue().rstrip() == expected.rstrip(), code


def test_the_stubs_name_what_the_module_has() -> None:
    stub = pathlib.Path("python/zerolag/_zerolag.pyi").read_text()
    declared = {node.name for node in ast.parse(stub).body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    assert declared == {name for name in dir(_zerolag) if not name.startswith("__")}
    for node in ast.parse(stub).body:
        if isinstance(node, ast.ClassDef):
            members = {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)}
            # A task takes any attribute: a type checker is told so by a method that the class does not have.
            assert members - {"__getattr__"} <= set(dir(getattr(_zerolag, node.name))), node.name


def test_the_package_is_typed_and_says_its_version() -> None:
    assert (pathlib.Path(zerolag.__file__).parent / "py.typed").exists()
    assert zerolag.__version__ in pathlib.Path("Cargo.toml").read_text()


def test_one_table_names_the_same_thing_everywhere() -> None:
    """The other columns are checked by `crates/cli/tests/cli/schema.rs`."""
    page = pathlib.Path("docs/how-to/python.md").read_text()
    rows = page.split("\n## One name\n")[1].strip().split("\n\n")[0].splitlines()[2:]
    assert len(rows) > 12
    named: set[str] = set()
    for row in rows:
        for written in re.findall(r"`([^`]*)`", row.split(" | ")[1]):
            name, _, option = written.partition("(")
            thing: Any = zerolag
            for part in name.split("."):
                thing = getattr(thing, part)
            assert not option or option.rstrip("=)") in inspect.signature(thing).parameters, row
            named.add(name.split(".")[0])
    # What a user calls and what calls return is in the table.
    functions = {name for name in zerolag.__all__ if inspect.isfunction(getattr(zerolag, name))}
    results = {name for name, of in vars(zerolag).items() if inspect.isclass(of) and hasattr(of, "to_json")}
    assert functions | results <= named | {"sobol"}, (functions | results) - named
