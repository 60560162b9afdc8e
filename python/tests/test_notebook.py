"""The notebooks of the guide: executed from their directory, their outputs are those that are stored."""

from __future__ import annotations

import base64
import io
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


def pictures(notebook: Any) -> list[Any]:
    """The plots as arrays of pixels, 0 to 1."""
    from matplotlib.image import imread

    shown = [output["data"] for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    return [imread(io.BytesIO(base64.b64decode(data["image/png"]))) for data in shown if "image/png" in data]


@pytest.mark.parametrize("name", list(PAGES))
def test_the_notebook_shows_what_it_computes(name: str) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    for needed in ("ipykernel", "polars", "matplotlib", NEEDS.get(name, "polars")):
        pytest.importorskip(needed)
    page = GUIDE / f"{name}.ipynb"
    stored = nbformat.read(page, as_version=4)
    executed = nbformat.read(page, as_version=4)
    nbclient.NotebookClient(executed, timeout=900, resources={"metadata": {"path": str(page.parent)}}).execute()
    assert len([shown for shown in outputs(stored) if shown]) == PAGES[name]
    assert outputs(executed) == outputs(stored)
    drawn, kept = pictures(executed), pictures(stored)
    assert [picture.shape for picture in drawn] == [picture.shape for picture in kept]
    # Another version of a font moves the edges of letters.
    apart = [float(abs(one - other).mean()) for one, other in zip(drawn, kept)]
    assert all(part < 0.01 for part in apart), f"the plots of {name} are other than stored ones: {apart}"


def test_every_notebook_of_the_guide_is_tested() -> None:
    assert {page.stem for page in GUIDE.glob("*.ipynb")} == set(PAGES)
