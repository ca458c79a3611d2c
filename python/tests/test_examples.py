"""The examples run with the real engines, and are short."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
LINES_MAX = 15


@pytest.mark.parametrize(("name", "engine"), [("dask_copies.py", "dask.distributed"), ("parsl_copies.py", "parsl")])
def test_an_example_copies_two_directories(name: str, engine: str, tree: Path, tmp_path: Path) -> None:
    pytest.importorskip(engine)
    assert len((EXAMPLES / name).read_text().splitlines()) <= LINES_MAX
    second = tmp_path / "second"
    second.mkdir()
    (second / "file").write_bytes(b"abc")
    (tmp_path / "target").mkdir()
    words = [sys.executable, *map(str, (EXAMPLES / name, tree, second, tmp_path / "target"))]
    run = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    assert sorted(run.stdout.splitlines()) == ["1 files, 3 bytes", "3 files, 100001 bytes"]
    assert (tmp_path / "target" / "tree" / "a").exists() and (tmp_path / "target" / "second" / "file").exists()
