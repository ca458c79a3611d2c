"""``Transfer``: a running job as a context manager and an iterator of events."""

from __future__ import annotations

import subprocess
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Generic, Optional

from ._executable import find_executable
from ._job import STOP_TIMEOUT_S, Command, Outcome, S, command_line
from ._process import abandon, close_quietly, stop_signal
from .events import Event

STDERR_JOIN_S = 1.0


class Transfer(Generic[S]):
    """A job that runs. Made by ``start_copy``, ``start_sync``, ``start_verify``, ``start_survey`` and ``start_probe``.

    >>> with haul.start_copy("run7", "db1:/archive/", recursive=True) as transfer:
    ...     for event in transfer:
    ...         print(event)
    ...     summary = transfer.result()

    When the ``with`` block is left early, by an exception or not, the job is interrupted and partial files are kept: the
    same call resumes. A ``Transfer`` that is garbage collected, or alive at exit, is ended likewise.
    """

    def __init__(self, command: Command[S]) -> None:
        words = command_line(find_executable(), command.words)
        self._outcome = Outcome(command)
        self._pending: deque[Event] = deque()
        self._reading = threading.Lock()
        self._process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._finalizer = weakref.finalize(self, abandon, self._process, STOP_TIMEOUT_S)
        self._stderr_thread = threading.Thread(
            target=drain_stderr, args=(self._process, self._outcome), name="haul-stderr", daemon=True
        )
        self._stderr_thread.start()

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def __enter__(self) -> Transfer[S]:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.cancel()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        event = self._next_event()
        if event is None:
            raise StopIteration
        return event

    def result(self) -> S:
        """Reads to the end and returns the summary, or raises what ``haul.errors`` has for the exit status."""
        while self._next_event() is not None:
            pass
        return self._outcome.result(self._reap())

    def cancel(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Interrupts the job, and waits until it has ended; kills it after ``timeout_s``. Partial files are kept.

        Any thread may call it. Events until the end can still be read, and ``result`` raises ``Interrupted``.
        """
        if self._process.poll() is None:
            self._process.send_signal(stop_signal())
        killer = threading.Timer(timeout_s, self._process.kill)
        killer.daemon = True
        killer.start()
        try:
            # A process may wait for a reader of its events; if no other thread reads, this one does.
            if self._reading.acquire(blocking=False):
                try:
                    self._drain()
                finally:
                    self._reading.release()
            self._process.wait()
        except BaseException:
            self._process.kill()
            raise
        finally:
            killer.cancel()
            self._reap()

    def _drain(self) -> None:
        while (event := self._read_event()) is not None:
            self._pending.append(event)

    def _next_event(self) -> Optional[Event]:
        with self._reading:
            return self._pending.popleft() if self._pending else self._read_event()

    def _read_event(self) -> Optional[Event]:
        stdout = self._process.stdout
        if stdout is None or stdout.closed or self._outcome.is_over:
            return None
        line = stdout.readline()
        return self._outcome.read(line) if line else None

    def _reap(self) -> int:
        """Waits for the process, and closes what belongs to it."""
        status = self._process.wait()
        # A master connection that ssh left in the background may hold standard error open.
        self._stderr_thread.join(STDERR_JOIN_S)
        if self._reading.acquire(blocking=False):
            try:
                if self._process.stdout is not None:
                    close_quietly(self._process.stdout)
            finally:
                self._reading.release()
        self._finalizer.detach()
        return status


def drain_stderr(process: subprocess.Popen[bytes], outcome: Outcome[S]) -> None:
    """Keeps the last lines of standard error: a full pipe would stop the job."""
    if process.stderr is None:
        return
    with process.stderr:
        for line in process.stderr:
            outcome.note_stderr(line)
