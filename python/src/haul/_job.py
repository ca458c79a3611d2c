"""What a run of haul does and what its events come to, without any process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Optional, TypeVar, Union

from . import summaries
from ._options import (
    CopyOptions,
    Location,
    ProbeOptions,
    SurveyOptions,
    VerifyOptions,
    Word,
    operand,
    operands,
    option_words,
)
from ._wording import error_of, in_python
from .errors import VANISHED, HaulError, PartialFailure, SourceNotFound, UnexpectedOutput
from .events import Differs, Error, Event, Failed, parse_event
from .summaries import CopySummary, Forecast, Summary, SurveySummary, VerifySummary

S = TypeVar("S", bound=Summary)
KEPT_MAX = 1000
NOT_FOUND = "No such file or directory"
STDERR_LINES_MAX = 200
LINE_BYTES_MAX = 64 << 20
STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Command(Generic[S]):
    """A command line without the executable, and how its output is read."""

    words: list[Word]
    kinds: dict[str, type[Event]]
    summary: type[S]


def copy_command(
    name: Optional[str],
    sources: Union[Location, Iterable[Location]],
    target: Location,
    options: Iterable[str],
    settings: Any,
) -> Command[CopySummary]:
    head: list[Word] = [name] if name else []
    words = [*head, "--json", *option_words(CopyOptions, settings), *options, "--", *operands(sources), operand(target)]
    return Command(words, summaries.COPY, CopySummary)


def verify_command(
    sources: Union[Location, Iterable[Location]], target: Location, options: Iterable[str], settings: Any
) -> Command[VerifySummary]:
    flags = option_words(VerifyOptions, settings)
    words = ["verify", "--json", *flags, *options, "--", *operands(sources), operand(target)]
    return Command(words, summaries.VERIFY, VerifySummary)


def survey_command(
    paths: Union[Location, Iterable[Location]], options: Iterable[str], settings: Any
) -> Command[SurveySummary]:
    words = ["survey", "--json", *option_words(SurveyOptions, settings), *options, "--", *operands(paths)]
    return Command(words, summaries.SURVEY, SurveySummary)


def probe_command(
    source: Optional[Location], target: Location, options: Iterable[str], settings: Any
) -> Command[Forecast]:
    ends = [operand(source)] if source is not None else []
    words = ["probe", "--json", *option_words(ProbeOptions, settings), *options, "--", *ends, operand(target)]
    return Command(words, summaries.PROBE, Forecast)


@dataclass
class Outcome(Generic[S]):
    """Collects what the result needs from the events."""

    command: Command[S]
    summary: Optional[S] = None
    error: Optional[Error] = None
    failures: list[Failed] = field(default_factory=list)
    rows: dict[type[Event], list[Any]] = field(default_factory=dict)
    stderr: deque[str] = field(default_factory=lambda: deque(maxlen=STDERR_LINES_MAX))

    def read(self, line: bytes) -> Event:
        """The event on a line; remembers what the result needs."""
        if len(line) > LINE_BYTES_MAX:
            raise UnexpectedOutput(f"haul wrote a line of more than {LINE_BYTES_MAX} bytes")
        event = parse_event(line, self.command.kinds)
        if isinstance(event, self.command.summary):
            self.summary = event
        elif isinstance(event, Error):
            self.error = event
        elif isinstance(event, Failed):
            keep(self.failures, event)
        elif type(event) in TABLES:
            keep(self.rows.setdefault(type(event), []), event)
        return event

    def note_stderr(self, line: bytes) -> None:
        self.stderr.append(line.decode("utf-8", "replace").rstrip("\n"))

    @property
    def is_over(self) -> bool:
        """Whether the last event was read."""
        return self.summary is not None or self.error is not None

    def result(self, status: int) -> S:
        """The summary, or the exception that ``status`` calls for."""
        if status < 0:
            raise error_of(status, "")
        if self.error is not None:
            raise self.noted(error_of(self.error.status or status, self.error.message))
        if self.summary is None:
            raise self.noted(error_of(status, self.spoken()))
        summary = self.completed(self.summary)
        if status not in (0, 1, VANISHED):
            # A job that ends early has a summary, too.
            raise self.noted(error_of(status, self.spoken()))
        if self.has_failed(summary):
            raise self.noted(self.partial_failure(summary))
        return summary

    def has_failed(self, summary: Summary) -> bool:
        is_bad = summary.status not in (0, VANISHED) and isinstance(summary, (CopySummary, Forecast))
        return summary.failed > 0 or is_bad

    def completed(self, summary: S) -> S:
        """The summary with the rows of its tables."""
        tables: dict[str, Any] = {}
        for kind, name in TABLES.items():
            if name in type(summary).__dataclass_fields__:
                tables[name] = tuple(self.rows.get(kind, ()))
        if isinstance(summary, SurveySummary):
            tables["failures"] = tuple(self.failures)
        return replace(summary, **tables)

    def partial_failure(self, summary: Summary) -> HaulError:
        if not self.failures:
            return PartialFailure(self.spoken() or "haul failed", hint="", summary=summary, failures=())
        first = self.failures[0]
        why, _, hint = first.message.partition("\n")
        others = f", and {summary.failed - 1} more" if summary.failed > 1 else ""
        message = f"{first.host}: {first.path}: {why}{others}"
        is_missing = all(failed.message.startswith(NOT_FOUND) for failed in self.failures)
        kind = SourceNotFound if is_missing else PartialFailure
        return kind(in_python(message), hint=in_python(hint), summary=summary, failures=self.failures)

    def spoken(self) -> str:
        """Standard error without the program's name."""
        lines = [line[len("haul: ") :] if line.startswith("haul: ") else line for line in self.stderr]
        return "\n".join(lines)

    def noted(self, error: HaulError) -> HaulError:
        """The error with the end of standard error attached, for logs."""
        error.stderr = tuple(self.stderr)
        return error


TABLES: dict[type[Event], str] = {
    Differs: "different",
    summaries.SizeClass: "sizes",
    summaries.BigDirectory: "biggest_directories",
    summaries.BigFile: "biggest_files",
    summaries.FileType: "types",
    summaries.Duplicates: "duplicate_sets",
    summaries.Check: "checks",
    summaries.ProbedEnd: "ends",
    summaries.ProbedPart: "parts",
}
"""Events that become rows of a field of the summary."""


def keep(rows: list[Any], event: Event) -> None:
    """Remembers a bounded number: jobs may have millions of entries."""
    if len(rows) < KEPT_MAX:
        rows.append(event)


def command_line(executable: str, words: Sequence[Word]) -> list[Word]:
    """A whole command line. NUL in a word is an error that subprocess would report without the word."""
    for word in words:
        if (b"\0" if isinstance(word, bytes) else "\0") in word:  # type: ignore[operator]
            raise error_of(2, f"{word!r}: a name cannot hold NUL")
    return [executable, *words]
