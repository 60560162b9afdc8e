"""The notebooks of the guide: executed from their directory, their outputs are those that are stored."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

GUIDE = pathlib.Path("docs/how-to")
PAGES = {"throttling": 5, "kernel-upgrade": 4, "schedulability": 4, "twelve-services": 2}
"""The notebooks, and how many of their cells have outputs."""
NEEDS = {"twelve-services": "optuna"}


def outputs(notebook: Any) -> list[str]:
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return ["".join(output.get("text") or output["data"]["text/plain"] for output in cell.outputs) for cell in cells]


@pytest.mark.parametrize("name", list(PAGES))
def test_the_notebook_shows_what_it_computes(name: str) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    for needed in ("ipykernel", "polars", "matplotlib", NEEDS.get(name, "polars")):
        pytest.importorskip(needed)
    page = GUIDE / f"{name}.ipynb"
    stored = nbformat.read(page, as_version=4)
    executed = nbformat.read(page, as_version=4)
    nbclient.NotebookClient(executed, timeout=300, resources={"metadata": {"path": str(page.parent)}}).execute()
    assert len([shown for shown in outputs(stored) if shown]) == PAGES[name]
    assert outputs(executed) == outputs(stored)


def test_every_notebook_of_the_guide_is_tested() -> None:
    assert {page.stem for page in GUIDE.glob("*.ipynb")} == set(PAGES)
