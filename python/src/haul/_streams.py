"""Files that are pipes from and to haul: ``haul HOST:file -`` and ``haul - HOST:file``."""

from __future__ import annotations

import io
import subprocess
import tempfile
import weakref
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Optional

from ._executable import find_executable
from ._job import STOP_TIMEOUT_S, command_line
from ._process import abandon, close_quietly, end
from ._remote import Place, os_error
from ._wording import error_of
from .errors import HaulError

if TYPE_CHECKING:
    from typing_extensions import Buffer

STDERR_BYTES_MAX = 64 << 10
COPY_BYTES = 1 << 20


class PipeProcess:
    """haul with a pipe at one end. Standard error goes to a file, so it never fills up."""

    def __init__(self, place: Place, words: list[Any], path: str, *, reads: bool) -> None:
        self.path = path
        self._stderr: IO[bytes] = tempfile.TemporaryFile(prefix="haul-python-")
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        self.process = subprocess.Popen(
            command_line(find_executable(), ["--quiet", *place.words(), *words]),
            stdin=null if reads else pipe,
            stdout=pipe if reads else null,
            stderr=self._stderr,
        )
        self.finalizer = weakref.finalize(self, abandon, self.process, STOP_TIMEOUT_S)

    def check(self) -> None:
        """Waits for the end; raises what haul reports."""
        status = self.process.wait()
        self.finalizer.detach()
        if status != 0:
            raise os_error(self.error(status), self.path)

    def error(self, status: int) -> HaulError:
        self._stderr.seek(0)
        text = self._stderr.read(STDERR_BYTES_MAX).decode("utf-8", "replace")
        return error_of(status, text[len("haul: ") :] if text.startswith("haul: ") else text)

    def stop(self) -> None:
        """Interrupts haul and waits; a file that was being written does not get its name."""
        end(self.process, STOP_TIMEOUT_S)
        self.finalizer.detach()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                close_quietly(pipe)
        self._stderr.close()


class PipeReader(io.RawIOBase):
    """The contents of a remote file, from its start. The end of the pipe counts only with status 0."""

    def __init__(self, place: Place, path: str) -> None:
        super().__init__()
        self._pipe = PipeProcess(place, ["--", place.operand(path), "-"], path, reads=True)
        self._is_over = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        stdout = self._pipe.process.stdout
        if self._is_over or stdout is None:
            return 0
        count = stdout.readinto(buffer)  # type: ignore[attr-defined]
        if not count and len(memoryview(buffer)):
            self._is_over = True
            self._pipe.check()
        return int(count)

    def close(self) -> None:
        if not self.closed:
            self._pipe.stop()
        super().close()


class PipeWriter(io.BufferedIOBase):
    """A remote file that is written from its start, and gets its name when it is closed.

    ``abort``, an exception in a ``with`` block, and garbage collection leave no file.
    """

    def __init__(self, place: Place, path: str, *, overwrite: bool) -> None:
        super().__init__()
        words = [*(["--force"] if overwrite else []), "--", "-", place.operand(path)]
        self._pipe = PipeProcess(place, words, path, reads=False)
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Buffer) -> int:
        if self.closed:
            raise ValueError("write to a closed file")
        view = memoryview(data).cast("B")
        try:
            self._stdin().write(view)
        except BrokenPipeError:
            self._raise_reason()
        self._position += len(view)
        return len(view)

    def flush(self) -> None:
        if self.closed or self._stdin().closed:
            return
        try:
            self._stdin().flush()
        except BrokenPipeError:
            self._raise_reason()

    def close(self) -> None:
        """Completes the file; raises why it could not be completed."""
        if self.closed:
            return
        try:
            try:
                self._stdin().close()
            except BrokenPipeError:
                pass
            self._pipe.check()
        finally:
            self._pipe.stop()
            io.BufferedIOBase.close(self)

    def abort(self) -> None:
        """Stops haul before it sees the end of the data: no file is made, an existing one stays."""
        if not self.closed:
            self._pipe.stop()
            io.BufferedIOBase.close(self)

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        if hasattr(self, "_pipe"):
            self.abort()

    def _stdin(self) -> IO[bytes]:
        stdin = self._pipe.process.stdin
        if stdin is None:
            raise ValueError("write to a closed file")
        return stdin

    def _raise_reason(self) -> None:
        """haul ended early: what it says is better than a broken pipe."""
        try:
            self._pipe.check()
        finally:
            self.abort()
        raise BrokenPipeError(32, "haul stopped reading", self._pipe.path)


class TextWriter(io.TextIOWrapper):
    """Text for a ``PipeWriter`` that is aborted with it."""

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if kind is not None and isinstance(self.buffer, PipeWriter):
            self.buffer.abort()
            return
        super().__exit__(kind, error, traceback)
