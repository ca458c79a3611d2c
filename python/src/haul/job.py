"""Jobs of many hosts (``haul job``): plan a copy in shards, run them here or with Slurm, and see how far they are.

>>> haul.job.plan("/data/run7", "dtn1:/archive/", dir="run7.job", recursive=True)
>>> report = haul.job.run("run7.job", local=2)
>>> report.files_copied, report.bytes_per_s
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from ._decode import decode
from ._executable import find_executable
from ._job import STOP_TIMEOUT_S, command_line
from ._options import (
    JobPlanOptions,
    JobRunOptions,
    JobVerifyOptions,
    Location,
    StrPath,
    Word,
    operand,
    operands,
    option_words,
    words_of,
)
from ._process import end
from ._wording import error_of
from .errors import UnexpectedOutput
from .events import Event

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class Shard(Event):
    """A shard of a job. ``state`` is ``planned``, ``running``, ``interrupted``, ``failed`` or ``done``."""

    shard: int = 0
    state: str = ""
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class JobStatus(Event):
    """How far a job is. ``counts`` has the number of shards in each state; ``shards`` are the shards themselves."""

    id: str = ""
    planned: bool = False
    copied: bool = False
    finished: bool = False
    cancelled: bool = False
    status: int = 0
    shards: tuple[Shard, ...] = field(default=(), repr=False)
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class JobReport(Event):
    """The result of all shards together; ``extra`` has hosts and the slowest shards."""

    shards: int = 0
    shards_done: int = 0
    files_copied: int = 0
    bytes: int = 0
    files_skipped: int = 0
    bytes_skipped: int = 0
    failed: int = 0
    vanished: int = 0
    reruns: int = 0
    seconds: float = 0.0
    bytes_per_s: float = 0.0


def plan(
    source: Location,
    target: Union[Location, Iterable[Location]],
    *,
    dir: StrPath,
    options: Iterable[str] = (),
    **settings: Unpack[JobPlanOptions],
) -> JobStatus:
    """Divides a copy into shards, in the directory ``dir``, which all hosts see. Keywords are also those of ``copy``."""
    flags = [*words_of("dir", dir), *option_words(JobPlanOptions, settings), *options]
    call(["plan", *flags, "--", operand(source), *operands(target)])
    return status(dir)


def run(job: StrPath, *, options: Iterable[str] = (), **settings: Unpack[JobRunOptions]) -> Optional[JobReport]:
    """Copies what is left of a planned job, and finishes it. ``None`` with ``no_wait``."""
    call(["run", *option_words(JobRunOptions, settings), *options, "--", operand(Path(job))])
    return None if settings.get("no_wait") else report(job)


def verify(job: StrPath, *, options: Iterable[str] = (), **settings: Unpack[JobVerifyOptions]) -> JobReport:
    """Compares source and target of a finished job, in shards. Raises ``JobFailed`` if they differ."""
    call(["verify", *option_words(JobVerifyOptions, settings), *options, "--", operand(Path(job))])
    return report(Path(job) / "verify")


def finish(job: StrPath) -> JobReport:
    """Makes directories and deletions, after all shards were run elsewhere."""
    call(["finish", "--", operand(Path(job))])
    return report(job)


def cancel(job: StrPath) -> None:
    """Stops the shards of a job on all hosts, and in Slurm. ``run`` continues it."""
    call(["cancel", "--", operand(Path(job))])


def status(job: StrPath) -> JobStatus:
    """The state of a job and of its shards."""
    # The exit status is that of the job: that it is unfinished is no error here.
    lines = call(["status", "--json", "--", operand(Path(job))], may_fail=True).splitlines()
    raws: list[dict[str, Any]] = [json.loads(line) for line in lines]
    if not raws or raws[-1].get("event") != "job":
        raise UnexpectedOutput(f"haul job status wrote no job: {lines[-1:]!r}")
    shards = tuple(decode(Shard, raw, "shard") for raw in raws[:-1])
    last = raws[-1]
    counts = last.pop("shards")
    return replace(decode(JobStatus, {**last, "counts": counts}, "job"), shards=shards)


def report(job: StrPath) -> JobReport:
    """The result of a finished job."""
    path = Path(job) / "report.json"
    return decode(JobReport, {"event": "report", **json.loads(path.read_bytes())}, str(path))


def call(words: Sequence[Word], *, may_fail: bool = False) -> str:
    """Runs a step of ``haul job`` to its end. An exception of this process interrupts it: running it again resumes."""
    process = subprocess.Popen(
        command_line(find_executable(), ["job", *words]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        output, errors = process.communicate()
    except BaseException:
        end(process, STOP_TIMEOUT_S)
        raise
    if process.returncode != 0 and not (may_fail and output):
        raise error_of(process.returncode, last_message(os.fsdecode(errors)))
    return os.fsdecode(output)


def last_message(text: str) -> str:
    """What haul said last on standard error."""
    return text.rpartition("haul: ")[2]
