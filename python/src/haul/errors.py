"""Exceptions, by exit status and kind.

==========  =====================================================
status      exception
==========  =====================================================
0           none
1           ``PartialFailure`` after a summary (``SourceNotFound`` where
            sources are missing), else ``JobFailed``
2           ``UsageError``
3           ``Unreachable``
4           ``Interrupted``
5           none: ``summary.vanished`` counts entries that vanished
a signal    ``Killed``
==========  =====================================================
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from .events import Failed
    from .summaries import Summary


class HaulError(Exception):
    """Base of all exceptions of this module.

    ``message`` says what happened and where, ``hint`` what to do (or is empty). ``status`` is the exit status of haul,
    negative for a signal, and ``None`` where haul did not run. ``resumable`` says whether the same call resumes.
    """

    resumable = False
    stderr: tuple[str, ...] = ()

    def __init__(self, message: str, *, hint: str = "", status: Optional[int] = None) -> None:
        super().__init__(message, hint, status)
        self.message = message
        self.hint = hint
        self.status = status

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (type(self), self.message, self.hint, self.status, self.stderr)

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class ExecutableNotFound(HaulError):
    """There is no executable ``haul``."""


class UsageError(HaulError):
    """Options or paths make no sense, or contradict what exists. Status 2."""


class Unreachable(HaulError):
    """A host cannot be reached, does not answer in time, or refuses the login. Status 3."""


class Interrupted(HaulError):
    """The job was interrupted, or a connection was lost for good. Status 4: the same call resumes."""

    resumable = True


class Killed(HaulError):
    """haul ended by a signal, and reported nothing. The same call resumes."""

    resumable = True


class JobFailed(HaulError):
    """The job could not do its work at all. Status 1."""


class UnexpectedOutput(HaulError):
    """haul wrote something that this module cannot read: their versions may not fit."""


class PartialFailure(HaulError):
    """The job ran to its end, but some files failed. Status 1: the others are at the target.

    ``failures`` has at most the first 1000 of them, ``summary.failed`` counts all.
    """

    def __init__(self, message: str, *, hint: str, summary: Summary, failures: Sequence[Failed]) -> None:
        super().__init__(message, hint=hint, status=1)
        self.summary = summary
        self.failures = tuple(failures)

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild_partial_failure, (type(self), self.message, self.hint, self.summary, self.failures)


class SourceNotFound(PartialFailure, FileNotFoundError):
    """Each of the ``failures`` is a source that does not exist."""

    def __init__(self, message: str, *, hint: str, summary: Summary, failures: Sequence[Failed]) -> None:
        super().__init__(message, hint=hint, summary=summary, failures=failures)
        self.errno = errno.ENOENT
        self.strerror = os.strerror(errno.ENOENT)
        self.filename = failures[0].path if failures else None


class FileChanged(HaulError, OSError):
    """A file has changed since it was opened, so its earlier bytes and later ones do not belong together."""

    def __init__(self, message: str, *, hint: str = "", path: Optional[str] = None) -> None:
        super().__init__(message, hint=hint)
        self.errno = errno.ESTALE
        self.strerror = message
        self.filename = path

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild_file_changed, (type(self), self.message, self.hint, self.filename)


def rebuild(kind: type[HaulError], message: str, hint: str, status: Optional[int], stderr: tuple[str, ...]) -> HaulError:
    """Unpickles: exceptions with keyword arguments need help to cross processes (Dask, Parsl)."""
    error = kind(message, hint=hint, status=status)
    error.stderr = stderr
    return error


def rebuild_partial_failure(
    kind: type[PartialFailure], message: str, hint: str, summary: Summary, failures: tuple[Failed, ...]
) -> PartialFailure:
    """Unpickles a ``PartialFailure``."""
    return kind(message, hint=hint, summary=summary, failures=failures)


def rebuild_file_changed(kind: type[FileChanged], message: str, hint: str, path: Optional[str]) -> FileChanged:
    """Unpickles a ``FileChanged``."""
    return kind(message, hint=hint, path=path)


#: The status of a job that is complete but for entries that vanished at the source.
VANISHED = 5

BY_STATUS: dict[int, type[HaulError]] = {1: JobFailed, 2: UsageError, 3: Unreachable, 4: Interrupted}
