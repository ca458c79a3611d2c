"""The wheel: built, installed into a fresh environment, and run from there without HAUL_BIN."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
WHEEL_BYTES_MAX = 12 << 20


def run(*words: object, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name not in ("HAUL_BIN", "PYTHONPATH")}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=PROJECT,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, executable: str) -> Path:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    # A debug build has much debugging information; a release has none.
    small = folder / "haul"
    strip = shutil.which("strip")
    run(strip, "-o", small, executable) if strip else shutil.copy(executable, small)
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, HAUL_BIN=str(small))
    return next(folder.glob("*.whl"))


def test_it_is_small_and_complete(wheel: Path) -> None:
    assert wheel.stat().st_size <= WHEEL_BYTES_MAX
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(name for name in names if name.endswith("/WHEEL"))
        about = archive.read(metadata.replace("/WHEEL", "/METADATA")).decode()
        tags = [line for line in archive.read(metadata).decode().splitlines() if line.startswith("Tag: ")]
    folder = metadata.rpartition("/")[0]
    data = folder.replace(".dist-info", ".data/data")
    licences = [f"{folder}/licenses/{name}" for name in ("LICENSE-APACHE", "LICENSE-MIT")]
    expected = ["haul/py.typed", f"{data}/share/doc/haul/notices.txt", *licences]
    assert [name for name in expected if name not in names] == []
    assert "\nProject-URL: Homepage, https://" in about and "\nProject-URL: Repository, https://" in about
    machine = os.uname().machine
    assert tags == [f"Tag: py3-none-manylinux2014_{machine}", f"Tag: py3-none-musllinux_1_1_{machine}"]


def test_it_installs_and_finds_its_executable(wheel: Path, tree: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "environment")
    python = tmp_path / "environment" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "--python", python, "install", "--quiet", "--no-index", "--no-deps", wheel)
    program = tmp_path / "environment" / "bin" / "haul"
    assert run(program, "--version").startswith("haul ") and "GNU LESSER" in run(program, "--license", "all")
    script = "import haul, sys; print(haul.find_executable(), haul.copy(*sys.argv[1:], recursive=True).files_copied)"
    found, copied = run(python, "-c", script, tree, tmp_path / "copy", PATH="/nonexistent").split()
    assert found == str(tmp_path / "environment" / "bin" / "haul") and copied == "3"
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", "--target", tmp_path / "apart", wheel)
    where = {"PATH": "/nonexistent", "PYTHONPATH": str(tmp_path / "apart")}
    found = run(sys.executable, "-c", script, tree, tmp_path / "copy2", **where)
    assert found.split() == [str(tmp_path / "apart" / "bin" / "haul"), "3"]


def test_an_executable_that_needs_libraries_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    dynamic = shutil.which("ls")
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(
        words, cwd=PROJECT, env={**os.environ, "HAUL_BIN": str(dynamic)}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0 and "needs a C library" in done.stderr and list(tmp_path.iterdir()) == []
