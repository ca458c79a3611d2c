"""Progress bars: text, and the widget in a real kernel."""

from __future__ import annotations

import io
import os
import textwrap
from pathlib import Path
from typing import Any

import pytest

import haul
from haul import _units, events, progress


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


HALF = haul.Progress("progress", bytes_found=2_000_000, bytes_written=1_000_000, walk_complete=True, files_found=2)
SUMMARY = haul.CopySummary("summary", files_copied=2, bytes=2_000_000, seconds=2.0, bytes_per_s=1_000_000.0)


def test_a_terminal_has_one_line_that_is_rewritten() -> None:
    stream = FakeTerminal()
    with progress.TextDisplay(stream) as display:
        display.show(HALF)
        display.show(events.Again("again", message="the connection broke\nwhy", pause_s=2.0))
        display.show(HALF)
        display.finish(SUMMARY)
    lines = [line.rstrip() for line in stream.getvalue().replace("\r", "\n").split("\n") if line.strip()]
    bar = "[############------------]  50% 1 MB of 2 MB, 0 of 2 files"
    assert lines[0] == bar and lines[1] == "reconnecting in 2 s: the connection broke"
    assert lines[2].startswith(bar) and lines[-1] == "2 files, 2 MB in 2.0 s: 1 MB/s"


def test_a_log_has_a_line_for_each_tenth() -> None:
    stream = io.StringIO()
    with progress.TextDisplay(stream) as display:
        for _ in range(5):
            display.show(HALF)
    assert len(stream.getvalue().splitlines()) == 1


def test_without_a_terminal_and_a_kernel_it_is_text(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    haul.copy(tree, tmp_path / "copy", recursive=True, progress=True)
    assert "100%" in capsys.readouterr().err
    assert type(progress.display_for(None)) is haul.Display


@pytest.mark.parametrize(("number", "text"), [(0, "0 B"), (999, "999 B"), (999_600, "1 MB"), (1.5e9, "1.5 GB")])
def test_amounts(number: float, text: str) -> None:
    assert _units.amount(number) == text


def run_notebook(cell: str) -> Any:
    """Runs a cell in a kernel; the notebook with its outputs."""
    pytest.importorskip("ipykernel")
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(textwrap.dedent(cell))])
    nbclient.NotebookClient(notebook, timeout=40, kernel_name="python3").execute()
    return notebook


def test_a_kernel_shows_a_widget_that_ends_full(tree: Path, tmp_path: Path) -> None:
    pytest.importorskip("ipywidgets")
    notebook = run_notebook(f"""
        import haul
        haul.copy({os.fspath(tree)!r}, {os.fspath(tmp_path / 'copy')!r}, recursive=True, progress=True).files_copied
    """)
    outputs = notebook.cells[0].outputs
    assert any("application/vnd.jupyter.widget-view+json" in one.get("data", {}) for one in outputs)
    assert outputs[-1]["data"]["text/plain"] == "3"
    states = notebook.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"].values()
    bar = next(one["state"] for one in states if one["model_name"] == "FloatProgressModel")
    label = next(one["state"] for one in states if one["model_name"] == "LabelModel")
    assert bar["value"] == 1.0 and bar["bar_style"] == "success"
    assert label["value"].startswith("3 files, 100 kB")


def test_a_kernel_without_ipywidgets_shows_text(tree: Path, tmp_path: Path) -> None:
    notebook = run_notebook(f"""
        import sys
        sys.modules["ipywidgets"] = None
        import haul
        haul.copy({os.fspath(tree)!r}, {os.fspath(tmp_path / 'copy')!r}, recursive=True, progress=True).files_copied
    """)
    text = "".join(one.get("text", "") for one in notebook.cells[0].outputs)
    assert "3 files, 100 kB" in text
