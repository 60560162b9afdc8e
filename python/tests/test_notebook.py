"""The notebooks of the guide: executed from their directory, their outputs are those that are stored."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

PAGES = [pathlib.Path("docs/guide/throttling.ipynb"), pathlib.Path("docs/guide/schedulability.ipynb")]


def outputs(notebook: Any) -> list[str]:
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return ["".join(output.get("text") or output["data"]["text/plain"] for output in cell.outputs) for cell in cells]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_notebook_shows_what_it_computes(page: pathlib.Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("polars")
    stored = nbformat.read(page, as_version=4)
    executed = nbformat.read(page, as_version=4)
    nbclient.NotebookClient(executed, timeout=300, resources={"metadata": {"path": str(page.parent)}}).execute()
    assert len(outputs(stored)) == 4 and all(outputs(stored))
    assert outputs(executed) == outputs(stored)
