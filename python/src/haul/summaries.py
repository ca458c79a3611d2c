"""Summaries: the last event of a job that ran to its end."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any, Optional

from .events import (
    COPY_EVENTS,
    Bottleneck,
    Differs,
    Event,
    Failed,
    Notice,
    Error,
    TransportPath,
)
from ._units import amount, counted


@dataclass(frozen=True)
class Summary(Event):
    """What all summaries have."""

    status: int = 0
    failed: int = 0

    def __str__(self) -> str:
        return f"status {self.status}, {counted(self.failed, 'failure')}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """For IPython."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """For notebooks."""
        return f"<pre>{html.escape(str(self))}</pre>"


@dataclass(frozen=True)
class Advice:
    """What could make a copy faster."""

    text: str = ""
    command: Optional[str] = None


@dataclass(frozen=True)
class Verdict:
    """What limited a copy, the evidence, and what could be done."""

    limit: str = ""
    detail: Optional[str] = None
    share: float = 0.0
    evidence: tuple[str, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)
    next: Optional[Bottleneck] = None
    advice: tuple[Advice, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SlowFile:
    """One of the slowest files."""

    path: str = ""
    bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class CopySummary(Summary):
    """The result of ``copy`` and ``sync``. ``extra`` has further figures (docs/JSON.md).

    ``files_planned`` and ``bytes_planned`` are what a dry run would copy.
    """

    files_copied: int = 0
    bytes: int = 0
    files_skipped: int = 0
    bytes_skipped: int = 0
    directories: int = 0
    symlinks: int = 0
    vanished: int = 0
    left_out: int = 0
    filtered: int = 0
    seconds: float = 0.0
    paused_s: float = 0.0
    bytes_per_s: float = 0.0
    restarts: int = 0
    transport: TransportPath = TransportPath()
    streams: int = 0
    cipher: Optional[str] = None
    verdict: Optional[Verdict] = None
    durable: bool = False
    dry_run: bool = False
    deleted: int = 0
    backed_up: int = 0
    linked: int = 0
    adjusted: int = 0
    deleted_at_source: int = 0
    left_at_source: int = 0
    slowest: tuple[SlowFile, ...] = ()
    files_planned: int = 0
    bytes_planned: int = 0

    def __str__(self) -> str:
        if self.dry_run:
            planned = f"{counted(self.files_planned, 'file')}, {amount(self.bytes_planned)}"
            return f"{planned} to copy{self._exceptions()}"
        figures = f"{counted(self.files_copied, 'file')}, {amount(self.bytes)} in {self.seconds:.1f} s"
        limit = f", limited by {self.verdict.limit}" if self.verdict is not None else ""
        return f"{figures}: {amount(self.bytes_per_s)}/s{limit}{self._exceptions()}"

    def _exceptions(self) -> str:
        """What a short line must not hide."""
        figures = {"skipped": self.files_skipped, "deleted": self.deleted, "vanished": self.vanished, "failed": self.failed}
        return "".join(f"; {number:,} {word}" for word, number in figures.items() if number)


@dataclass(frozen=True)
class VerifySummary(Summary):
    """The result of ``verify``. ``different`` has at most the first 1000 entries, ``differences`` counts all."""

    files_compared: int = 0
    bytes_compared: int = 0
    differences: int = 0
    directories: int = 0
    symlinks: int = 0
    vanished: int = 0
    left_out: int = 0
    filtered: int = 0
    seconds: float = 0.0
    bytes_per_s: float = 0.0
    restarts: int = 0
    different: tuple[Differs, ...] = ()

    @property
    def identical(self) -> bool:
        """Whether everything was compared and is equal."""
        return self.differences == 0 and self.failed == 0

    def __str__(self) -> str:
        verdict = "identical" if self.identical else counted(self.differences, "difference")
        failed = f", {self.failed:,} failed" if self.failed else ""
        return f"{counted(self.files_compared, 'file')} compared: {verdict}{failed}"


@dataclass(frozen=True)
class Counted:
    """A number of files and their bytes."""

    files: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class SizeClass(Event):
    """Files of at least ``lower`` bytes and fewer than ``below``."""

    below: int = 0
    files: int = 0
    bytes: int = 0

    @property
    def lower(self) -> int:
        """``from`` in JSON, which is a keyword of Python."""
        return int(self.extra.get("from", 0))


@dataclass(frozen=True)
class BigDirectory(Event):
    """One of the biggest directories, with all that is below it."""

    path: str = ""
    files: int = 0
    bytes: int = 0
    own_files: int = 0
    own_bytes: int = 0


@dataclass(frozen=True)
class BigFile(Event):
    """One of the biggest files."""

    path: str = ""
    bytes: int = 0


@dataclass(frozen=True)
class FileType(Event):
    """Files by the ending of their names; ``None`` is all further endings."""

    ending: Optional[str] = None
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class NamedPath:
    """A path alone."""

    path: str = ""


@dataclass(frozen=True)
class Duplicates(Event):
    """A set of equal files."""

    files: int = 0
    bytes: int = 0
    spare_bytes: int = 0
    blake3: str = ""
    first: tuple[NamedPath, ...] = ()


@dataclass(frozen=True)
class SurveySummary(Summary):
    """The result of ``survey``, with its tables."""

    files: int = 0
    bytes: int = 0
    data_bytes: int = 0
    directories: int = 0
    links: int = 0
    others: int = 0
    filtered: int = 0
    left_out: int = 0
    unreadable: int = 0
    linked: Counted = Counted()
    sizes: tuple[SizeClass, ...] = ()
    biggest_directories: tuple[BigDirectory, ...] = ()
    biggest_files: tuple[BigFile, ...] = ()
    types: tuple[FileType, ...] = ()
    duplicate_sets: tuple[Duplicates, ...] = ()
    failures: tuple[Failed, ...] = ()

    def __str__(self) -> str:
        unreadable = f"; {self.unreadable:,} unreadable" if self.unreadable else ""
        return f"{counted(self.files, 'file')}, {amount(self.bytes)}{unreadable}"


@dataclass(frozen=True)
class Check(Event):
    """A check of a host before a copy."""

    id: str = ""
    host: Optional[str] = None
    fine: bool = False
    message: str = ""


@dataclass(frozen=True)
class ProbedEnd(Event):
    """One end's processors and free space; ``extra`` has the rest."""

    end: str = ""
    host: Optional[str] = None
    cores: int = 0


@dataclass(frozen=True)
class ProbedPart(Event):
    """A measured part: ``read``, ``network``, ``write`` or ``whole``. ``message`` says why it could not be measured."""

    part: str = ""
    bytes_per_s: Optional[float] = None
    message: Optional[str] = None


@dataclass(frozen=True)
class Forecast(Summary):
    """The result of ``probe``. ``settings`` are recommended options and their arguments."""

    bytes_per_s: Optional[float] = None
    limit: Optional[str] = None
    settings: dict[str, Any] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    ends: tuple[ProbedEnd, ...] = ()
    parts: tuple[ProbedPart, ...] = ()

    def __str__(self) -> str:
        if self.bytes_per_s is None:
            return "no forecast"
        limit = f", limited by {self.limit}" if self.limit is not None else ""
        return f"{amount(self.bytes_per_s)}/s expected{limit}"


COPY = {**COPY_EVENTS, "summary": CopySummary}
VERIFY = {**COPY_EVENTS, "summary": VerifySummary}
SURVEY: dict[str, type[Event]] = {
    "failed": Failed,
    "sizes": SizeClass,
    "directory": BigDirectory,
    "big_file": BigFile,
    "type": FileType,
    "duplicates": Duplicates,
    "summary": SurveySummary,
    "error": Error,
}
PROBE: dict[str, type[Event]] = {
    "check": Check,
    "end": ProbedEnd,
    "part": ProbedPart,
    "notice": Notice,
    "forecast": Forecast,
    "error": Error,
}
