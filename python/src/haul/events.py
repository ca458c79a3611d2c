"""Events of a job, as frozen dataclasses.

Each is a line of ``haul --json``. ``extra`` has the fields that this module does not know. An event that it does not
know is an ``Event`` itself, with all fields in ``extra``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Optional

from ._decode import decode
from .errors import UnexpectedOutput


@dataclass(frozen=True)
class Event:
    """Something that happened; ``event`` is its name in JSON."""

    event: str = ""
    extra: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class TransportPath:
    """How data travels: ``kind`` is ``tcp``, ``ssh``, ``control``, ``local`` or ``none``; ``extra`` has the rest."""

    kind: str = "none"
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Connecting(Event):
    """haul logs in to a host."""

    host: str = ""


@dataclass(frozen=True)
class Deployed(Event):
    """haul was copied to a host that had none."""

    host: str = ""
    path: str = ""


@dataclass(frozen=True)
class Connected(Event):
    """The first data stream is up. ``cipher`` is ``None`` without sockets."""

    transport: TransportPath = TransportPath()
    streams: int = 0
    cipher: Optional[str] = None


@dataclass(frozen=True)
class Moved(Event):
    """Data takes another path."""

    transport: TransportPath = TransportPath()
    message: Optional[str] = None


@dataclass(frozen=True)
class Bottleneck:
    """What limits the rate, and its share from 0 to 1."""

    limit: str = ""
    share: float = 0.0
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Progress(Event):
    """Figures of the present attempt, every second."""

    files_found: int = 0
    bytes_found: int = 0
    walk_complete: bool = False
    files_settled: int = 0
    bytes_written: int = 0
    bytes_skipped: int = 0
    bytes_compared: int = 0
    streams: int = 0
    limited_by: Optional[Bottleneck] = None

    @property
    def bytes_settled(self) -> int:
        """Bytes that need no more work."""
        return self.bytes_written + self.bytes_skipped + self.bytes_compared

    @property
    def fraction(self) -> Optional[float]:
        """The part that is done, from 0 to 1; ``None`` while the total is unknown."""
        if not self.walk_complete:
            return None
        return min(1.0, self.bytes_settled / self.bytes_found) if self.bytes_found else 1.0


@dataclass(frozen=True)
class File(Event):
    """A file is complete, verified and under its final name; in a comparison: it is equal."""

    path: str = ""
    bytes: int = 0
    copied: bool = False
    blake3: Optional[str] = None


@dataclass(frozen=True)
class Checksum(Event):
    """A requested digest of a file."""

    path: str = ""
    algorithm: str = ""
    digest: str = ""


@dataclass(frozen=True)
class Resumed(Event):
    """A partial file of an earlier run is used: ``bytes_held`` of its ``bytes`` are at the target."""

    path: str = ""
    bytes: int = 0
    bytes_held: int = 0


@dataclass(frozen=True)
class Unlisted(Event):
    """With ``expect``: a file without a line."""

    path: str = ""


@dataclass(frozen=True)
class Unmet(Event):
    """With ``expect``: a line without a file."""

    path: str = ""


@dataclass(frozen=True)
class Failed(Event):
    """A file or directory that failed. The first line of ``message`` says why, the others what to do."""

    path: str = ""
    host: str = ""
    message: str = ""


@dataclass(frozen=True)
class Difference:
    """How an entry differs: ``what`` is ``missing``, ``extra``, ``size``, ``content``...; ``extra`` has the figures."""

    what: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Differs(Event):
    """An entry that differs between source and target (``verify``)."""

    path: str = ""
    host: str = ""
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True)
class Item(Event):
    """An entry that is created, replaced, adjusted, linked or deleted (``items``), or would be (``dry_run``)."""

    path: str = ""
    what: str = ""
    change: str = ""
    reasons: tuple[str, ...] = ()
    bytes: Optional[int] = None
    modified_ns: Optional[int] = None


@dataclass(frozen=True)
class SourceChanged(Event):
    """An entry that changed at the source, and did not fail: it ``vanished`` before it was read, or ``grew``."""

    path: str = ""
    change: str = ""


@dataclass(frozen=True)
class LeftOut(Event):
    """A FIFO, socket or device that is not copied."""

    path: str = ""
    reason: str = ""


@dataclass(frozen=True)
class RateLimit(Event):
    """The rate limit has changed; ``None`` is no limit."""

    bytes_per_s: Optional[int] = None


@dataclass(frozen=True)
class Stopped(Event):
    """The job was interrupted; an error follows."""

    verdict: Optional[Bottleneck] = None


@dataclass(frozen=True)
class Again(Event):
    """A connection was lost, and the job restarts after a pause."""

    message: str = ""
    pause_s: float = 0.0
    attempt: int = 0
    attempts: Optional[int] = None
    left_s: Optional[float] = None


@dataclass(frozen=True)
class Notice(Event):
    """A warning."""

    message: str = ""


@dataclass(frozen=True)
class Error(Event):
    """The job did not run to its end."""

    message: str = ""
    status: int = 0


COPY_EVENTS: dict[str, type[Event]] = {
    "connecting": Connecting,
    "deployed": Deployed,
    "connected": Connected,
    "moved": Moved,
    "progress": Progress,
    "file": File,
    "checksum": Checksum,
    "resumed": Resumed,
    "unlisted": Unlisted,
    "unmet": Unmet,
    "failed": Failed,
    "differs": Differs,
    "item": Item,
    "source_changed": SourceChanged,
    "left_out": LeftOut,
    "rate_limit": RateLimit,
    "stopped": Stopped,
    "again": Again,
    "notice": Notice,
    "error": Error,
}


def parse_event(line: bytes, kinds: dict[str, type[Event]]) -> Event:
    """The event on a line of ``haul --json``."""
    try:
        raw = json.loads(line)
    except ValueError:
        raw = None
    if not isinstance(raw, dict) or not isinstance(raw.get("event"), str):
        raise UnexpectedOutput(f"haul wrote a line that is no event: {line[:200]!r}")
    name = raw["event"]
    return decode(kinds.get(name, Event), raw, name)
