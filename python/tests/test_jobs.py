"""Jobs of ``haul job``: shards with Dask and Parsl, and the manifest for Kubernetes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import haul

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


def test_a_job_is_planned_run_and_compared(tmp_path: Path) -> None:
    for number in range(FILES):
        file = tmp_path / "source" / str(number)
        file.parent.mkdir(exist_ok=True)
        file.write_text(str(number))
    job, target = tmp_path / "job", tmp_path / "target"
    ends = (tmp_path / "source", target)
    planned = haul.job.plan(*ends, dir=job, recursive=True, make_directories=True, shard_files=50)
    assert planned.planned and not planned.finished and planned.counts["planned"] == len(planned.shards) > 5
    assert sum(shard.files for shard in planned.shards) == FILES and planned.shards[0].state == "planned"
    haul.job.cancel(job)
    assert haul.job.status(job).cancelled
    report = haul.job.run(job, local=2)
    assert report is not None and (report.files_copied, report.failed) == (FILES, 0)
    assert haul.job.status(job).finished and len(os.listdir(target / "source")) == FILES
    assert haul.job.verify(job).failed == 0
    (target / "source" / "7").write_text("x")
    with pytest.raises(haul.JobFailed):
        haul.job.verify(job)
    with pytest.raises(haul.HaulError, match="no such job directory"):
        haul.job.status(tmp_path / "none")
    with pytest.raises(haul.UsageError, match="unknown keyword: colour"):
        haul.job.run(job, colour="red")  # type: ignore[call-arg]


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
