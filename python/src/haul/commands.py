"""``copy``, ``sync``, ``verify``, ``survey`` and ``probe``, each until its end; and ``start_...`` for a ``Transfer``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Callable, Optional, Union

from . import _job
from ._job import Command, S
from ._options import CopyOptions, Location, ProbeOptions, SurveyOptions, VerifyOptions
from .events import Event, Progress
from .progress import Display, display_for
from .summaries import CopySummary, Forecast, SurveySummary, VerifySummary
from .transfer import Transfer

if TYPE_CHECKING:
    from typing_extensions import Unpack

Locations = Union[Location, Iterable[Location]]
ProgressArgument = Union[None, bool, Callable[[Progress], object], Display]
OnEvent = Optional[Callable[[Event], object]]


def copy(
    sources: Locations,
    target: Location,
    *,
    options: Iterable[str] = (),
    progress: ProgressArgument = None,
    on_event: OnEvent = None,
    **settings: Unpack[CopyOptions],
) -> CopySummary:
    """Copies files and, with ``recursive=True``, directories. Returns the summary.

    ``sources`` and ``target`` are paths, or strings such as ``"[user@]host:path"`` and ``"haul://host:port/#secret"``.
    ``progress`` is ``True`` for a progress bar, or a function that gets each ``Progress``. ``on_event`` gets each event.
    ``options`` are options of haul, such as ``["--frame=256k"]``; ``CopyOptions`` lists the keywords.

    Raises ``PartialFailure`` if some files failed, and other exceptions of ``haul.errors``. After ``Interrupted`` or
    ``Killed``, the same call resumes.
    """
    return run(_job.copy_command(None, sources, target, options, settings), progress, on_event)


def sync(
    sources: Locations,
    target: Location,
    *,
    options: Iterable[str] = (),
    progress: ProgressArgument = None,
    on_event: OnEvent = None,
    **settings: Unpack[CopyOptions],
) -> CopySummary:
    """Makes a directory match its sources. ``"run7/"`` means the contents of ``run7``. Keywords are those of ``copy``."""
    return run(_job.copy_command("sync", sources, target, options, settings), progress, on_event)


def verify(
    sources: Locations,
    target: Location,
    *,
    options: Iterable[str] = (),
    progress: ProgressArgument = None,
    on_event: OnEvent = None,
    **settings: Unpack[VerifyOptions],
) -> VerifySummary:
    """Compares what a copy would have made. Differences are no exception: ``identical`` and ``different`` tell them."""
    return run(_job.verify_command(sources, target, options, settings), progress, on_event)


def survey(
    paths: Locations, *, options: Iterable[str] = (), on_event: OnEvent = None, **settings: Unpack[SurveyOptions]
) -> SurveySummary:
    """Counts what a copy would move: sizes, types, duplicates and compressibility of files on this machine."""
    return run(_job.survey_command(paths, options, settings), None, on_event)


def probe(
    target: Location,
    source: Optional[Location] = None,
    *,
    options: Iterable[str] = (),
    on_event: OnEvent = None,
    **settings: Unpack[ProbeOptions],
) -> Forecast:
    """Measures disks and network for some seconds, and predicts the rate of a copy from ``source`` to ``target``."""
    return run(_job.probe_command(source, target, options, settings), None, on_event)


def start_copy(
    sources: Locations, target: Location, *, options: Iterable[str] = (), **settings: Unpack[CopyOptions]
) -> Transfer[CopySummary]:
    """Starts a copy; see ``copy`` for its arguments."""
    return Transfer(_job.copy_command(None, sources, target, options, settings))


def start_sync(
    sources: Locations, target: Location, *, options: Iterable[str] = (), **settings: Unpack[CopyOptions]
) -> Transfer[CopySummary]:
    """Starts a sync; see ``sync`` for its arguments."""
    return Transfer(_job.copy_command("sync", sources, target, options, settings))


def start_verify(
    sources: Locations, target: Location, *, options: Iterable[str] = (), **settings: Unpack[VerifyOptions]
) -> Transfer[VerifySummary]:
    """Starts a comparison; see ``verify`` for its arguments."""
    return Transfer(_job.verify_command(sources, target, options, settings))


def start_survey(
    paths: Locations, *, options: Iterable[str] = (), **settings: Unpack[SurveyOptions]
) -> Transfer[SurveySummary]:
    """Starts a survey; see ``survey`` for its arguments."""
    return Transfer(_job.survey_command(paths, options, settings))


def start_probe(
    target: Location,
    source: Optional[Location] = None,
    *,
    options: Iterable[str] = (),
    **settings: Unpack[ProbeOptions],
) -> Transfer[Forecast]:
    """Starts a probe; see ``probe`` for its arguments."""
    return Transfer(_job.probe_command(source, target, options, settings))


def run(command: Command[S], progress: ProgressArgument, on_event: OnEvent) -> S:
    """Runs a command to its end and hands on its events."""
    with Transfer(command) as transfer, display_for(progress) as display:
        for event in transfer:
            if on_event is not None:
                on_event(event)
            display.show(event)
        summary = transfer.result()
        display.finish(summary)
        return summary
