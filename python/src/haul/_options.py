"""Keyword arguments and the options of haul that they become.

A keyword is the long option with underscores; ``overwrite``, ``skip_existing``, ``rate`` and ``make_directories`` have
clearer names than their options. Options without a keyword go into ``options``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict, Union

from .errors import UsageError

StrPath = Union[str, "os.PathLike[str]"]
Location = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Size = Union[int, str]
Time = Union[float, str]
Word = Union[str, bytes]


class ConnectionOptions(TypedDict, total=False):
    """How hosts are reached, and for how long haul tries."""

    idfile: StrPath
    ssh_port: int
    ssh_option: Union[str, Iterable[str]]
    secret_file: StrPath
    no_deploy: bool
    retries: int
    retry_for: Time
    silence: Time
    time_limit: Time
    config: StrPath
    progress_every: int


class FilterOptions(TypedDict, total=False):
    """What is left out. ``include`` precedes ``exclude``; for another order use ``options``."""

    include: Union[str, Iterable[str]]
    exclude: Union[str, Iterable[str]]
    exclude_from: StrPath
    include_from: StrPath
    filter_files: Union[str, Iterable[str]]
    min_size: Size
    max_size: Size
    newer: str
    older: str


class PreserveOptions(TypedDict, total=False):
    """What is preserved, or compared, besides contents."""

    recursive: bool
    preserve: bool
    perms: bool
    owner: bool
    group: bool
    archive: bool
    hard_links: bool
    xattrs: bool
    acls: bool
    numeric_ids: bool
    devices: bool
    specials: bool
    symlinks: str


class VerifyOptions(ConnectionOptions, FilterOptions, PreserveOptions, total=False):
    """Keywords of ``verify``."""

    dirbase: StrPath
    streams: int


class CopyOptions(VerifyOptions, total=False):
    """Keywords of ``copy`` and ``sync``."""

    overwrite: bool
    skip_existing: bool
    make_directories: bool
    mode: str
    chmod: Union[str, Iterable[str]]
    no_times: bool
    omit_dir_times: bool
    omit_link_times: bool
    no_resume: bool
    no_keep: bool
    delta: str
    inplace: bool
    sparse: str
    compare: str
    update: bool
    existing: bool
    delete: Union[bool, str]
    delete_excluded: bool
    max_delete: int
    backup_dir: StrPath
    link_dest: Union[StrPath, Iterable[StrPath]]
    detect_renames: bool
    remove_source_files: bool
    dry_run: bool
    items: bool
    rate: Size
    compress: str
    cipher: str
    no_encrypt: bool
    verify: str
    digest: str
    fsync: str
    expect: StrPath
    checksum: Union[str, Iterable[str]]
    checksums: StrPath
    report: StrPath


class ShardOptions(TypedDict, total=False):
    """Where the shards of a job run."""

    local: int
    slurm: bool
    nodes: int
    limit: int
    partition: str
    account: str
    time: str
    cpus_per_task: int
    sbatch: Union[str, Iterable[str]]
    no_wait: bool
    confirm: str


class JobRunOptions(ShardOptions, total=False):
    """Keywords of ``job.run``."""

    then_verify: bool


class JobVerifyOptions(ShardOptions, total=False):
    """Keywords of ``job.verify``."""

    only_plan: bool


class JobPlanOptions(CopyOptions, total=False):
    """Keywords of ``job.plan``."""

    sync: bool
    shard_bytes: Size
    shard_files: Size
    shard_range: Size
    sources: StrPath
    targets: StrPath
    nodes: int


class SurveyOptions(FilterOptions, total=False):
    """Keywords of ``survey``."""

    to: StrPath
    symlinks: str
    no_duplicates: bool
    no_sample: bool
    time: Time
    html: StrPath
    config: StrPath


class ProbeOptions(ConnectionOptions, total=False):
    """Keywords of ``probe``."""

    time: Time
    size: Size
    try_streams: str
    save: bool
    streams: int


RENAMED = {
    "overwrite": "force",
    "skip_existing": "omit",
    "make_directories": "mkdir",
    "rate": "xfrrate",
    "time_limit": "timelimit",
    "progress_every": "progress",
}
"""Keywords that are not the name of their option."""

LETTERS = {
    "-A": "acls",
    "-H": "hard_links",
    "-P": "ssh_port",
    "-S": "sparse",
    "-X": "xattrs",
    "-a": "archive",
    "-f": "overwrite",
    "-g": "group",
    "-i": "idfile",
    "-n": "dry_run",
    "-o": "ssh_option",
    "-p": "perms",
    "-r": "recursive",
    "-s": "streams",
    "-u": "update",
    "-z": "compress",
}
"""Options of one letter, in messages of haul."""


def keywords(kind: type[Any]) -> frozenset[str]:
    """All keywords of one of the classes above."""
    return frozenset(kind.__annotations__)


def option_words(kind: type[Any], settings: Mapping[str, Any]) -> list[Word]:
    """The words of a command line for keyword arguments. Include patterns come first, since the first match decides."""
    unknown = sorted(set(settings) - keywords(kind))
    if unknown:
        known = ", ".join(sorted(keywords(kind)))
        raise UsageError(f"unknown keyword: {', '.join(unknown)}", hint=f"one of {known}; or options=['--name=value']")
    ordered = sorted(settings.items(), key=lambda item: not item[0].startswith("include"))
    return [word for keyword, value in ordered for word in words_of(keyword, value)]


def long_option(keyword: str) -> str:
    return "--" + RENAMED.get(keyword, keyword).replace("_", "-")


def words_of(keyword: str, value: Any) -> list[Word]:
    option = long_option(keyword)
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    if isinstance(value, (str, bytes, int, float, os.PathLike)):
        return [joined(option, value)]
    return [joined(option, one) for one in value]


def joined(option: str, value: Any) -> Word:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(text, bytes):
        return os.fsencode(option) + b"=" + text
    return f"{option}={text}"


def operand(location: Location) -> Word:
    """A source or target as haul reads it: a string may name a host, a ``Path`` is always on this machine."""
    if not isinstance(location, (str, bytes, os.PathLike)):
        raise UsageError(f"{location!r} is no path", hint="pass a str, bytes or os.PathLike")
    if not isinstance(location, os.PathLike):
        if location in ("-", b"-"):
            raise UsageError(
                "- is no source or target here: standard output carries events",
                hint="use haul.fsspec for streams, or the path ./- for a file of that name",
            )
        return location
    path = os.fsencode(location)
    first = path.split(b"/", 1)[0]
    is_ambiguous = b":" in first or first.startswith((b"-", b"["))
    return b"./" + path if is_ambiguous else path


def operands(locations: Union[Location, Iterable[Location]]) -> list[Word]:
    """One location, or several."""
    if isinstance(locations, (str, bytes, os.PathLike)):
        return [operand(locations)]
    if not isinstance(locations, Iterable):
        raise UsageError(f"{locations!r} is no path", hint="pass a path, or several")
    found = [operand(one) for one in locations]
    if not found:
        raise UsageError("no source", hint="pass at least one path")
    return found
