"""The same for asyncio: ``await haul.aio.copy(...)``, and ``AsyncTransfer``.

A cancelled task interrupts its job and waits until it has ended. Partial files are kept: the same call resumes.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator, Generator, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Optional

from . import _job
from ._executable import find_executable
from ._job import LINE_BYTES_MAX, STOP_TIMEOUT_S, Command, Outcome, S, command_line
from ._options import CopyOptions, Location, ProbeOptions, SurveyOptions, VerifyOptions, Word
from ._process import stop_signal
from .commands import Locations, OnEvent, ProgressArgument
from .events import Event
from .progress import display_for
from .summaries import CopySummary, Forecast, SurveySummary, VerifySummary
from .transfer import STDERR_JOIN_S

if TYPE_CHECKING:
    from typing_extensions import Unpack


class AsyncTransfer(Generic[S]):
    """A job that runs, as an asynchronous context manager and iterator of events.

    >>> async with haul.aio.start_copy("run7", "db1:/archive/", recursive=True) as transfer:
    ...     async for event in transfer:
    ...         print(event)
    ...     summary = await transfer.result()
    """

    def __init__(self, command: Command[S]) -> None:
        self._outcome = Outcome(command)
        self._process: Optional[asyncio.subprocess.Process] = None
        self._stderr: Optional[asyncio.Task[None]] = None

    @property
    def pid(self) -> Optional[int]:
        """The process, once it was started."""
        return None if self._process is None else self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process still runs."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> AsyncTransfer[S]:
        """Starts the process; ``async with`` does it, too."""
        if self._process is None:
            words = command_line(find_executable(), self._outcome.command.words)
            starting = asyncio.ensure_future(start_process(words))
            try:
                self._process = await asyncio.shield(starting)
            except asyncio.CancelledError:
                # The process may be there already, and nobody would know it.
                process = await starting
                process.kill()
                await process.communicate()
                raise
            self._stderr = asyncio.ensure_future(drain_stderr(self._process, self._outcome))
            weakref.finalize(self, kill_transport, self._process)
        return self

    def __await__(self) -> Generator[Any, None, S]:
        return self._run().__await__()

    async def _run(self) -> S:
        async with self:
            return await self.result()

    async def __aenter__(self) -> AsyncTransfer[S]:
        return await self.start()

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.cancel()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        event = await self._read_event()
        if event is None:
            raise StopAsyncIteration
        return event

    async def result(self) -> S:
        """Reads to the end and returns the summary, or raises what ``haul.errors`` has for the exit status."""
        await self.start()
        while await self._read_event() is not None:
            pass
        return self._outcome.result(await self._reap())

    async def cancel(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Interrupts the job, and waits until it has ended; kills it after ``timeout_s``. Partial files are kept."""
        if self._process is None:
            return
        ending = asyncio.ensure_future(self._end(self._process, timeout_s))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            # Cancelled once more: no more patience, but no process is left either.
            send(self._process, None)
            await ending
            raise

    async def _end(self, process: asyncio.subprocess.Process, timeout_s: float) -> None:
        send(process, stop_signal())
        try:
            await asyncio.wait_for(self._drain(process), timeout_s)
        except asyncio.TimeoutError:
            send(process, None)
        await self._reap()

    async def _drain(self, process: asyncio.subprocess.Process) -> None:
        """Reads on, since a process may wait for a reader of its events."""
        while await self._read_event() is not None:
            pass
        await process.wait()

    async def _read_event(self) -> Optional[Event]:
        await self.start()
        stdout = self._process.stdout if self._process is not None else None
        if stdout is None or self._outcome.is_over:
            return None
        line = await stdout.readline()
        return self._outcome.read(line) if line else None

    async def _reap(self) -> int:
        if self._process is None or self._stderr is None:
            raise RuntimeError("the job was not started")
        status = await self._process.wait()
        # A master connection that ssh left in the background may hold standard error open.
        await asyncio.wait([self._stderr], timeout=STDERR_JOIN_S)
        self._stderr.cancel()
        close_transport(self._process)
        return status


async def start_process(words: list[Word]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=LINE_BYTES_MAX,
    )


async def drain_stderr(process: asyncio.subprocess.Process, outcome: Outcome[S]) -> None:
    """Keeps the last lines of standard error: a full pipe would stop the job."""
    if process.stderr is not None:
        while line := await process.stderr.readline():
            outcome.note_stderr(line)


def send(process: asyncio.subprocess.Process, signal: Optional[int]) -> None:
    """Sends a signal, or kills; a process that has ended is no error."""
    try:
        if process.returncode is None:
            process.kill() if signal is None else process.send_signal(signal)
    except ProcessLookupError:
        pass


def kill_transport(process: asyncio.subprocess.Process) -> None:
    """Ends the process of a transfer that was forgotten. Its loop may be closed, so nothing can be awaited."""
    send(process, None)
    close_transport(process)


def close_transport(process: asyncio.subprocess.Process) -> None:
    """Closes the pipes of an ended process now: its finalizer would fail once the loop is closed."""
    transport = getattr(process, "_transport", None)
    if transport is not None:
        with contextlib.suppress(RuntimeError):
            transport.close()


def start_copy(
    sources: Locations, target: Location, *, options: Iterable[str] = (), **settings: Unpack[CopyOptions]
) -> AsyncTransfer[CopySummary]:
    """A copy that starts with ``async with`` or ``await``; see ``haul.copy`` for its arguments."""
    return AsyncTransfer(_job.copy_command(None, sources, target, options, settings))


def start_sync(
    sources: Locations, target: Location, *, options: Iterable[str] = (), **settings: Unpack[CopyOptions]
) -> AsyncTransfer[CopySummary]:
    """A sync that starts with ``async with`` or ``await``."""
    return AsyncTransfer(_job.copy_command("sync", sources, target, options, settings))


async def copy(
    sources: Locations,
    target: Location,
    *,
    options: Iterable[str] = (),
    progress: ProgressArgument = None,
    on_event: OnEvent = None,
    **settings: Unpack[CopyOptions],
) -> CopySummary:
    """See ``haul.copy``."""
    return await run(_job.copy_command(None, sources, target, options, settings), progress, on_event)


async def sync(
    sources: Locations,
    target: Location,
    *,
    options: Iterable[str] = (),
    progress: ProgressArgument = None,
    on_event: OnEvent = None,
    **settings: Unpack[CopyOptions],
) -> CopySummary:
    """See ``haul.sync``."""
    return await run(_job.copy_command("sync", sources, target, options, settings), progress, on_event)


async def verify(
    sources: Locations,
    target: Location,
    *,
    options: Iterable[str] = (),
    progress: ProgressArgument = None,
    on_event: OnEvent = None,
    **settings: Unpack[VerifyOptions],
) -> VerifySummary:
    """See ``haul.verify``."""
    return await run(_job.verify_command(sources, target, options, settings), progress, on_event)


async def survey(
    paths: Locations, *, options: Iterable[str] = (), on_event: OnEvent = None, **settings: Unpack[SurveyOptions]
) -> SurveySummary:
    """See ``haul.survey``."""
    return await run(_job.survey_command(paths, options, settings), None, on_event)


async def probe(
    target: Location,
    source: Optional[Location] = None,
    *,
    options: Iterable[str] = (),
    on_event: OnEvent = None,
    **settings: Unpack[ProbeOptions],
) -> Forecast:
    """See ``haul.probe``."""
    return await run(_job.probe_command(source, target, options, settings), None, on_event)


async def run(command: Command[S], progress: ProgressArgument, on_event: OnEvent) -> S:
    """Runs a command to its end and hands on its events. Functions that are called must not block."""
    async with AsyncTransfer(command) as transfer:
        with display_for(progress) as display:
            async for event in transfer:
                if on_event is not None:
                    on_event(event)
                display.show(event)
            summary = await transfer.result()
            display.finish(summary)
            return summary
