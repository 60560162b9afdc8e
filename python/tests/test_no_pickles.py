"""Nothing that is read from a file, or that a worker returns, can name code to be run.

A pickle names functions that are called when it is read. The package reads none: stores are JSON lines and Parquet, which hold values only. An executor
of the user's pickles a `Spec`, keys and rows to its own processes, and lists of numbers back; where these processes run is the user's choice.
"""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "zerolag"

# Modules that run code named by what they read, and functions that run text.
MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "jsonpickle", "yaml", "runpy", "code"}
FUNCTIONS = {"eval", "exec", "compile", "__import__"}


def named(tree):
    """Yields the modules that a file imports, the functions that it calls by name, and `numpy.load(allow_pickle=True)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").split(".")[0]
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node.func.id
            elif isinstance(node.func, ast.Attribute) and node.func.attr in {"read_pickle", "import_module"}:
                yield node.func.attr
            yield from (word.arg for word in node.keywords if word.arg == "allow_pickle")


FORBIDDEN = MODULES | FUNCTIONS | {"read_pickle", "import_module", "allow_pickle"}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.name)
def test_no_module_reads_code(path):
    assert not FORBIDDEN & set(named(ast.parse(path.read_text())))


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads",
        "import joblib.externals",
        "eval('1')",
        "frame.read_pickle(path)",
        "numpy.load(path, allow_pickle=True)",
    ],
)
def test_one_that_does_is_found(text):
    assert FORBIDDEN & set(named(ast.parse(text)))
