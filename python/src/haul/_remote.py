"""Names, lists and changes paths below one place: a host over ssh, a ``haul serve``, or this machine.

Paths are absolute and of text: ``/archive/run7``. Below a server, ``/`` is the served directory. Nothing here needs
fsspec.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Optional

from . import commands
from ._options import ConnectionOptions, Word, option_words
from .errors import HaulError, PartialFailure, UsageError
from .events import Event, Item

MAKE_HINT = "make_directories=True"


@dataclass(frozen=True)
class Entry:
    """A file, directory or other entry. ``size`` is 0 but for files; an unknown time is ``None``."""

    kind: str
    size: int = 0
    modified_ns: Optional[int] = None

    @classmethod
    def of(cls, item: Item) -> Entry:
        return cls(item.what, item.bytes or 0, item.modified_ns)

    @property
    def mtime(self) -> Optional[float]:
        """As in ``os.stat``."""
        if self.modified_ns is None:
            return None
        seconds, nanoseconds = divmod(self.modified_ns, 10**9)
        return seconds + nanoseconds * 1e-9


@dataclass(frozen=True)
class Place:
    """Where paths lead, and the options with which haul gets there."""

    host: Optional[str] = None
    user: Optional[str] = None
    served: Optional[str] = field(default=None, repr=False)
    connection: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.served is not None and self.host is not None:
            raise UsageError("both host and served are given", hint="host is for ssh, served for haul serve")
        if self.served is not None and not self.served.startswith("haul://"):
            raise UsageError("served is not a line of haul serve", hint="pass haul://HOST:PORT/#SECRET")
        for name, value, special in (("host", self.host, "/[]"), ("user", self.user, "/[]:@")):
            if value == "" or any(char in special for char in value or ""):
                raise UsageError(f"{name}={value!r}: not a {name}", hint=f"a {name} has none of {special}")
        option_words(ConnectionOptions, self.connection)

    def operand(self, path: str) -> str:
        """What haul's command line calls ``path``."""
        if self.served is not None:
            below = path.lstrip("/") or "."
            if "#" in self.served:
                return f"{self.served}:{below}"
            scheme, _, rest = self.served.partition("://")
            host, _, directory = rest.partition("/")
            return f"{scheme}://{host}/{directory.rstrip('/')}/{below}"
        if self.host is not None:
            host = f"[{self.host}]" if ":" in self.host else self.host
            return f"{self.user}@{host}:{path}" if self.user else f"{host}:{path}"
        return path

    def words(self) -> list[Word]:
        """The connection's options, for a command line of one's own."""
        return option_words(ConnectionOptions, self.connection)

    def session_words(self) -> list[Word]:
        """Those of the options that a session takes, which has no time limit and no progress."""
        kept = {name: value for name, value in self.connection.items() if name not in ("time_limit", "progress_every")}
        return option_words(ConnectionOptions, kept)

    def session_path(self, path: str) -> str:
        """What a session calls ``path``: below a server, paths begin in its directory."""
        return path if self.served is None else path.lstrip("/") or "."

    def listing(self, path: str, depth: Optional[int]) -> dict[str, Entry]:
        """Entries below a directory by relative path, ``depth`` levels deep or all. A dry run names them."""
        entries: dict[str, Entry] = {}
        further_names: list[str] = []
        exclude = [] if depth is None else ["/*" * (depth + 1)]
        with empty_directory() as scratch, os_errors(path):
            prefix = os.path.join(scratch, "")

            def note(event: Event) -> None:
                if isinstance(event, Item) and event.path.startswith(prefix):
                    name = event.path[len(prefix) :]
                    entries[name] = Entry.of(event)
                    if event.what == "file" and event.bytes is None:
                        further_names.append(name)

            settings: Any = {**self.connection, "dry_run": True, "exclude": exclude}
            operand = self.operand(path).rstrip("/") + "/"
            commands.sync(operand, scratch, on_event=note, **settings)
        # With hard links in the configuration, only the first name of a file has its size.
        from ._session import FileSession

        if further_names:
            session = FileSession(self)
            entries.update({name: session.find(f"{path.rstrip('/')}/{name}") for name in further_names})
            session.close()
        return entries

    def make_directory(self, path: str) -> None:
        """Makes a directory that is missing, and those above it."""
        from ._session import change

        change(self, "mkdir", path, parents=True)

    def send(self, local: str, path: str, *, overwrite: bool) -> None:
        """Copies a local file to ``path``, and makes directories above it if they are missing."""
        with os_errors(path):
            self.make_parent_and_retry(
                path,
                lambda: commands.copy(
                    os.fsencode(local_operand(local)), self.operand(path), overwrite=overwrite, **self.connection
                ),
            )

    def make_parent_and_retry(self, path: str, act: Any) -> None:
        """Acts, and once more with the directories above ``path`` if haul says that they are missing."""
        try:
            act()
        except UsageError as error:
            if MAKE_HINT not in error.hint:
                raise
            self.make_directory(parent_of(path))
            act()

    def remove(self, path: str, *, recursive: bool) -> None:
        """Removes an entry; a directory with all that is below it if it is ``recursive``."""
        from ._session import change

        if is_root(path):
            raise UsageError("/ cannot be removed", hint="name what is in it")
        removed = change(self, "remove", path, recursive=recursive)
        if removed["failed"]:
            raise OSError(5, removed["text"], path)


SERVED_URL = re.compile(
    r"(?P<line>haul://[^/#]+/[^/#]*#(?:[0-9a-f]{32}|haul-public-\w+|open))(?:[:/](?P<path>.*))?", re.DOTALL
)
"""The line of a ``haul serve``, and a path below its directory."""


def split_secret(value: Any) -> tuple[Any, str]:
    """A line of ``haul serve`` without its one-time secret, and the secret. Everything else stays as it is."""
    if not isinstance(value, str) or "://" not in value:
        return value, ""
    place, _, credential = value.partition("#")
    return (value, "") if credential.startswith(("haul-public-", "open")) else (place, credential)


def is_root(path: str) -> bool:
    return path.strip("/") == ""


def parent_of(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[0] or "/"


def local_operand(path: str) -> str:
    """A local path that haul cannot take for a host's."""
    return os.path.join(os.curdir, path) if not os.path.isabs(path) else path


@contextmanager
def empty_directory() -> Iterator[str]:
    """An empty directory with usual permissions, which ``sync`` gives to what it makes."""
    with tempfile.TemporaryDirectory(prefix="haul-python-") as around:
        inner = os.path.join(around, "empty")
        os.mkdir(inner)
        yield inner


SYSTEM_ERRORS: tuple[tuple[str, type[OSError], int], ...] = (
    ("No such file or directory", FileNotFoundError, 2),
    ("Permission denied", PermissionError, 13),
    ("already exists", FileExistsError, 17),
    ("Not a directory", NotADirectoryError, 20),
    ("is a directory", IsADirectoryError, 21),
)
"""What haul says, and what Python calls it."""


@contextmanager
def os_errors(path: str) -> Iterator[None]:
    """Failures of files as ``OSError``, which callers of file systems expect. Other errors stay as they are."""
    try:
        yield
    except (PartialFailure, UsageError) as error:
        raise os_error(error, path) from error


def os_error(error: HaulError, path: str) -> Exception:
    """The ``OSError`` for an error of haul, or the error itself where there is none."""
    for text, kind, number in SYSTEM_ERRORS:
        if text in error.message:
            return kind(number, str(error), path)
    return OSError(5, str(error), path) if isinstance(error, PartialFailure) else error
