"""Jobs of ``haul job``: shards with Dask and Parsl, and the manifest for Kubernetes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
LINES_MAX = 15
FILES = 300


@pytest.fixture
def planned(executable: str, tmp_path: Path) -> tuple[Path, int]:
    """A planned job, and the number of its shards."""
    for number in range(FILES):
        file = tmp_path / "source" / str(number % 5) / str(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(number))
    job = tmp_path / "job"
    words = ["job", "plan", "-r", "-A", "--dir", str(job), "--shard-files", "50", "source", "target"]
    subprocess.run([executable, *words], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    return job, len(list((job / "shards").iterdir()))


@pytest.mark.parametrize(("name", "engine"), [("dask_job.py", "dask.distributed"), ("parsl_job.py", "parsl")])
def test_an_engine_runs_the_shards(
    name: str, engine: str, executable: str, planned: tuple[Path, int], tmp_path: Path
) -> None:
    pytest.importorskip(engine)
    assert len((EXAMPLES / name).read_text().splitlines()) <= LINES_MAX
    job, shards = planned
    assert shards > 5
    places = [str(Path(executable).parent), os.environ["PATH"]]
    words = [sys.executable, str(EXAMPLES / name), str(job), str(shards)]
    run = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=100, env={**os.environ, "PATH": ":".join(places)}
    )
    assert run.returncode == 0, run.stderr
    assert len([file for file in (tmp_path / "target").rglob("*") if file.is_file()]) == FILES
    assert (job / "report.json").exists()


def test_the_manifest_is_what_kubernetes_takes(executable: str, planned: tuple[Path, int]) -> None:
    validate = pytest.importorskip("kubernetes_validate")
    yaml = pytest.importorskip("yaml")
    words = ["job", "manifest", "--image", "registry.example.org/haul:1", "--claim", "shared", str(planned[0])]
    text = subprocess.run([executable, *words], check=True, capture_output=True, text=True, timeout=60).stdout
    documents = list(yaml.safe_load_all(text))
    assert [document["kind"] for document in documents] == ["Job", "Job"]
    for document in documents:
        validate.validate(document, validate.latest_version(), strict=True)
        wrong = {**document, "spec": {**document["spec"], "completion": 3}}
        with pytest.raises(validate.ValidationError):
            validate.validate(wrong, validate.latest_version(), strict=True)
    assert documents[0]["spec"]["completions"] == planned[1]
