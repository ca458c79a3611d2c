"""haul for Python: copies files between machines with the executable ``haul``, and reports what happens.

>>> import haul
>>> summary = haul.copy("run7", "db1:/archive/", recursive=True, progress=True)
>>> summary.bytes_per_s
1850000000.0

``haul.aio`` has the same for asyncio, ``haul.job`` jobs of many hosts, ``haul.fsspec`` a file system, ``haul.events`` and ``haul.summaries`` the types.
"""

from importlib import metadata as _metadata

from . import aio, errors, events, job, summaries
from ._executable import find_executable
from .commands import (
    copy,
    probe,
    start_copy,
    start_probe,
    start_survey,
    start_sync,
    start_verify,
    survey,
    sync,
    verify,
)
from .errors import (
    ExecutableNotFound,
    FileChanged,
    HaulError,
    Interrupted,
    JobFailed,
    Killed,
    PartialFailure,
    SourceNotFound,
    UnexpectedOutput,
    Unreachable,
    UsageError,
)
from .events import Event, Failed, Progress
from .progress import Display, NotebookDisplay, TextDisplay
from .summaries import CopySummary, Forecast, Summary, SurveySummary, VerifySummary
from .transfer import Transfer

try:
    __version__ = _metadata.version("haul-transfer")
except _metadata.PackageNotFoundError:
    # A checkout on the path, without an installation.
    __version__ = "unknown"

__all__ = [
    "CopySummary",
    "Display",
    "Event",
    "ExecutableNotFound",
    "Failed",
    "FileChanged",
    "Forecast",
    "HaulError",
    "Interrupted",
    "JobFailed",
    "Killed",
    "NotebookDisplay",
    "PartialFailure",
    "Progress",
    "SourceNotFound",
    "Summary",
    "SurveySummary",
    "TextDisplay",
    "Transfer",
    "UnexpectedOutput",
    "Unreachable",
    "UsageError",
    "VerifySummary",
    "__version__",
    "aio",
    "copy",
    "errors",
    "events",
    "find_executable",
    "job",
    "probe",
    "start_copy",
    "start_probe",
    "start_survey",
    "start_sync",
    "start_verify",
    "summaries",
    "survey",
    "sync",
    "verify",
]
