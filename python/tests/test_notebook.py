"""The notebook of the guide: executed from its directory, its outputs are those that are stored."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

PAGE = pathlib.Path("docs/guide/throttling.ipynb")


def outputs(notebook: Any) -> list[str]:
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return ["".join(output.get("text") or output["data"]["text/plain"] for output in cell.outputs) for cell in cells]


def test_the_notebook_shows_what_it_computes() -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("polars")
    stored = nbformat.read(PAGE, as_version=4)
    executed = nbformat.read(PAGE, as_version=4)
    nbclient.NotebookClient(executed, timeout=300, resources={"metadata": {"path": str(PAGE.parent)}}).execute()
    assert len(outputs(stored)) == 4 and all(outputs(stored))
    assert outputs(executed) == outputs(stored)
