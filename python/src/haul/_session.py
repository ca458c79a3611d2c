"""Files and directories of a place: one ``haul read --session`` stays, and all files and threads share it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tempfile
import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Callable, Optional, TypeVar

from ._executable import find_executable
from ._job import STOP_TIMEOUT_S, command_line
from ._process import abandon, close_quietly
from ._remote import Entry, Place, os_error
from ._wording import error_of
from .errors import FileChanged, HaulError, Interrupted, Killed

if TYPE_CHECKING:
    from typing_extensions import Buffer

OPEN_MAX = 48
"""Files that the session holds open; those read longest ago are opened again when they are needed."""
READ_MAX = 1 << 20
"""Bytes in one answer: haul permits more, which is slower."""
STDERR_BYTES_MAX = 64 << 10
LINK_REFUSED = "follows no symbolic links"
"""What a server says of a path through a link, or of one."""

T = TypeVar("T")


@dataclass(frozen=True)
class FileVersion:
    """A file, and what any change of it changes."""

    path: str
    size: int
    device: int
    inode: int
    modified_ns: int
    changed_ns: int


class Worker:
    """A running ``haul read --session``."""

    def __init__(self, place: Place, *, changes: bool = False) -> None:
        self.files: OrderedDict[FileVersion, int] = OrderedDict()
        self._stderr: IO[bytes] = tempfile.TemporaryFile(prefix="haul-python-")
        flags = ["--session", "--changes"] if changes else ["--session"]
        words = ["read", *place.session_words(), *flags, "--", place.operand("/")]
        # Without buffers: after a fork, each process would write its copy of them.
        self.process = subprocess.Popen(
            command_line(find_executable(), words),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        self._finalizer = weakref.finalize(self, abandon, self.process, STOP_TIMEOUT_S)
        if self.process.stdin is None or self.process.stdout is None:
            raise ValueError("a session without pipes")
        self._input, self._output = self.process.stdin, io.BufferedReader(self.process.stdout)  # type: ignore[type-var,unused-ignore]
        self._answer()

    def ask(self, request: dict[str, Any], path: str, into: Optional[memoryview] = None) -> dict[str, Any]:
        """The answer to a request; bytes of a file go into ``into``."""
        line = memoryview(json.dumps(request).encode() + b"\n")
        try:
            while line:
                line = line[self._input.write(line) :]
        except BrokenPipeError:
            pass
        answer = self._answer(into)
        if answer["answer"] == "failed":
            raise failure(answer, path)
        return answer

    def close(self, version: FileVersion) -> None:
        """Closes a file that is open."""
        self.ask({"request": "close", "file": self.files.pop(version)}, version.path)

    def _answer(self, into: Optional[memoryview] = None) -> dict[str, Any]:
        line = self._output.readline()
        if not line.endswith(b"\n"):
            raise self._lost()
        answer: dict[str, Any] = json.loads(line)
        left = answer.get("bytes", 0)
        if left and into is not None:
            rest = into[:left]
            while rest:
                read = self._output.readinto(rest)
                if not read:
                    raise self._lost()
                rest = rest[read:]
        return answer

    def _lost(self) -> HaulError:
        status = self.process.wait()
        self._stderr.seek(0)
        text = self._stderr.read(STDERR_BYTES_MAX).decode("utf-8", "replace")
        return error_of(status, text[len("haul: ") :] if text.startswith("haul: ") else text)

    def stop(self) -> None:
        """Ends it: nobody reads its answers any more."""
        self._finalizer()
        close_quietly(self._output)
        self._stderr.close()

    def leave(self) -> None:
        """Closes this process's copies of the pipes after a fork; the worker is the parent's."""
        self._finalizer.detach()
        self.process.returncode = 0
        for pipe in (self._input, self._output, self._stderr):
            close_quietly(pipe)


class FileSession:
    """Opens and reads files of a place, one operation at a time.

    After a fork, and once after a lost connection, it starts anew. A file that it opens again has to be the version
    that was opened before.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._worker: Optional[Worker] = None
        SESSIONS.add(self)

    def open(self, path: str) -> FileVersion:
        """The present version of a file."""
        return self._perform(lambda worker: self._open(worker, path)[0], path)

    def find(self, path: str) -> Entry:
        """What ``path`` is. A link stands for its target, except at a server, which follows none."""

        def act(worker: Worker) -> Entry:
            request = path_request("stat", self._place.session_path(path))
            try:
                return entry_of(worker.ask({**request, "follows": True}, path))
            except PermissionError as error:
                if LINK_REFUSED not in str(error):
                    raise
                return entry_of(worker.ask({**request, "follows": False}, path))

        return self._perform(act, path)

    def listing(self, path: str) -> dict[str, Entry]:
        """The entries of a directory by name."""

        def act(worker: Worker) -> dict[str, Entry]:
            try:
                answer = worker.ask(path_request("list", self._place.session_path(path)), path)
            except PermissionError as error:
                if LINK_REFUSED not in str(error):
                    raise
                raise NotADirectoryError(20, "a symbolic link", path) from error
            entries = {name_of(one): entry_of(one) for one in answer["entries"]}
            while answer["listing"] is not None:
                answer = worker.ask({"request": "list_on", "listing": answer["listing"]}, path)
                entries.update({name_of(one): entry_of(one) for one in answer["entries"]})
            return entries

        return self._perform(act, path)

    def read(self, version: FileVersion, offset: int, buffer: Buffer) -> int:
        """Reads bytes of a version into ``buffer``: fewer at its end, or beyond ``READ_MAX``."""
        view = memoryview(buffer).cast("B")
        length = min(len(view), READ_MAX, max(0, version.size - offset))
        if not length:
            return 0

        def act(worker: Worker) -> int:
            number = worker.files.get(version)
            if number is None:
                found, number = self._open(worker, version.path)
                if found != version:
                    raise FileChanged("the file has changed since it was opened", hint="open it again", path=version.path)
            worker.files.move_to_end(version)
            request = {"request": "read", "file": number, "offset": offset, "length": length}
            try:
                return int(worker.ask(request, version.path, view)["bytes"])
            except FileChanged:
                worker.close(version)
                raise

        return self._perform(act, version.path)

    def read_range(self, version: FileVersion, first: int, last: int) -> bytes:
        """The bytes of a version from ``first`` up to ``last``."""
        found = bytearray(max(0, last - first))
        view, done = memoryview(found), 0
        while read := self.read(version, first + done, view[done:]):
            done += read
        return bytes(found)

    def close(self) -> None:
        """Ends the connection; a later operation starts another one."""
        with self._lock:
            self._discard()

    def _perform(self, act: Callable[[Worker], T], path: str) -> T:
        with self._lock:
            try:
                try:
                    had_worker = self._worker is not None
                    return act(self._started())
                except (Interrupted, Killed):
                    self._discard()
                    if not had_worker:
                        raise
                    return act(self._started())
            except HaulError as error:
                if isinstance(error, OSError):
                    raise
                self._discard()
                raise os_error(error, path) from error
            except OSError:
                raise
            except BaseException:
                # Half an answer may have been read.
                self._discard()
                raise

    def _open(self, worker: Worker, path: str) -> tuple[FileVersion, int]:
        while len(worker.files) >= OPEN_MAX:
            worker.close(next(iter(worker.files)))
        found = worker.ask(open_request(self._place.session_path(path)), path)
        number: int = found["file"]
        members = ("size", "device", "inode", "modified_ns", "changed_ns")
        version = FileVersion(path, *(found[member] for member in members))
        if version in worker.files:
            worker.close(version)
        worker.files[version] = number
        return version, number

    def _started(self) -> Worker:
        if self._worker is None:
            self._worker = Worker(self._place)
        return self._worker

    def _discard(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()

    def leave_to_parent(self) -> None:
        """After a fork, in the child."""
        worker, self._worker, self._lock = self._worker, None, threading.Lock()
        if worker is not None:
            worker.leave()


SESSIONS: weakref.WeakSet[FileSession] = weakref.WeakSet()


def leave_all_to_parent() -> None:
    for session in list(SESSIONS):
        session.leave_to_parent()


os.register_at_fork(after_in_child=leave_all_to_parent)


class SessionFile(io.RawIOBase):
    """A file for reading in any order. It is the version that was there when it was opened, or an error."""

    def __init__(self, session: FileSession, path: str) -> None:
        super().__init__()
        self._session = session
        self.version = session.open(path)
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        read = self._session.read(self.version, self._position, buffer)
        self._position += read
        return read

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        starts = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.version.size}
        position = starts[whence] + offset
        if position < 0:
            raise OSError(22, "negative position", self.version.path)
        self._position = position
        return position

    def tell(self) -> int:
        return self._position


class ReadFile(io.BufferedReader):
    """A buffered ``SessionFile``."""

    def __init__(self, session: FileSession, path: str, buffer_bytes: int) -> None:
        raw = SessionFile(session, path)
        super().__init__(raw, buffer_bytes)
        self.path = path
        self.version = raw.version

    @property
    def size(self) -> int:
        return self.version.size


def open_request(path: str) -> dict[str, Any]:
    request = path_request("open", path)
    return request if "path" in request else {**request, "request": "open_hex"}


def path_request(name: str, path: str) -> dict[str, Any]:
    try:
        path.encode()
    except UnicodeEncodeError:
        return {"request": name, "path_hex": os.fsencode(path).hex()}
    return {"request": name, "path": path}


def change(place: Place, name: str, path: str, **how: bool) -> dict[str, Any]:
    """Makes a directory or removes an entry, by a session that may."""
    try:
        worker = Worker(place, changes=True)
        try:
            return worker.ask({**path_request(name, place.session_path(path)), **how}, path)
        finally:
            worker.stop()
    except HaulError as error:
        if isinstance(error, OSError):
            raise
        raise os_error(error, path) from error


def entry_of(answer: dict[str, Any]) -> Entry:
    is_file = answer["kind"] == "file"
    return Entry(answer["kind"], answer["bytes"] if is_file else 0, answer["modified_ns"])


def name_of(entry: dict[str, Any]) -> str:
    return os.fsdecode(bytes.fromhex(entry["name_hex"])) if "name_hex" in entry else str(entry["name"])


def failure(answer: dict[str, Any], path: str) -> OSError:
    """What Python calls a failed operation."""
    text, kind = answer["text"], answer["failure"]
    if kind == "changed":
        message, _, hint = text.partition("\n")
        return FileChanged(message, hint=hint, path=path)
    kinds: dict[str, tuple[type[OSError], int]] = {
        "gone": (FileNotFoundError, 2),
        "denied": (PermissionError, 13),
        "directory": (IsADirectoryError, 21),
        "not_directory": (NotADirectoryError, 20),
        "exists": (FileExistsError, 17),
        "protected": (PermissionError, 1),
    }
    error, number = kinds.get(kind, (OSError, 5))
    return error(number, text, path)
