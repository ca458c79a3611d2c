"""A file system for fsspec: ``fsspec.filesystem("haul", host="db1")``, ``haul://db1/archive/run7``.

Listings have names, kinds, sizes and times of modification, but no modes. Files are read, looked up and listed over one
connection, which stays. Each other operation starts haul, and so logs in: ssh's ControlMaster makes that fast.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from typing import Any, Callable, Optional, Union

from fsspec.callbacks import DEFAULT_CALLBACK  # type: ignore[import-untyped,unused-ignore]
from fsspec.implementations.local import (  # type: ignore[import-untyped,unused-ignore]
    LocalFileSystem,
    make_path_posix,
    trailing_sep,
)
from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped,unused-ignore]
from fsspec.utils import infer_storage_options  # type: ignore[import-untyped,unused-ignore]

from . import commands
from ._remote import (
    SERVED_URL,
    Entry,
    Place,
    is_root,
    local_operand,
    os_errors,
    parent_of,
    split_secret,
)
from ._secrets import file_of
from ._session import FileSession, ReadFile
from ._streams import COPY_BYTES, PipeReader, PipeWriter, TextWriter
from .summaries import CopySummary

PIPE_MIN = 64 << 20
"""A whole file above this size is worth another login, for parallel streams."""
KINDS = {"file": "file", "directory": "directory", "symlink": "link", "special": "other"}


class HaulFileSystem(AbstractFileSystem):  # type: ignore[misc,unused-ignore]
    """Files of a host over ssh (``host``), of a ``haul serve`` (``served``), or of this machine (neither).

    ``served`` is the line that ``haul serve`` prints. ``to_json`` and pickles have the name of a file with its secret,
    never the secret; without ``secret_file``, that file lasts as long as this process. Further keywords are those of
    ``haul.copy`` for connections, such as ``idfile`` and ``secret_file``. ``auto_mkdir`` makes missing directories above files that are written.
    """

    protocol = "haul"
    root_marker = "/"
    cachable = True

    def __init__(
        self,
        host: Optional[str] = None,
        user: Optional[str] = None,
        served: Optional[str] = None,
        auto_mkdir: bool = True,
        skip_instance_cache: bool = False,
        use_listings_cache: bool = False,
        **connection: Any,
    ) -> None:
        super().__init__(use_listings_cache=use_listings_cache, skip_instance_cache=skip_instance_cache)
        _, secret = split_secret(served)
        self.secret_file = connection.get("secret_file")
        if secret:
            # haul takes one or the other.
            connection.pop("secret_file", None)
            self.secret_file = self.secret_file or file_of(secret)
        self.place = Place(host=host, user=user, served=served, connection=connection)
        self.auto_mkdir = auto_mkdir
        self.session = FileSession(self.place)

    def __setattr__(self, name: str, value: Any) -> None:
        # fsspec sets these, and makes JSON and pickles of them.
        if name == "storage_args":
            value = tuple(split_secret(one)[0] for one in value)
        elif name == "storage_options":
            value = {key: split_secret(one)[0] for key, one in value.items()}
            if self.secret_file is not None:
                value["secret_file"] = os.fspath(self.secret_file)
        super().__setattr__(name, value)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = os.fspath(path)
        if served := SERVED_URL.fullmatch(text):
            text = served["path"] or ""
        elif text.startswith("haul://"):
            text = infer_storage_options(text)["path"]
        elif text.startswith("haul:"):
            text = text[len("haul:") :]
        return "/" + text.strip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        if served := SERVED_URL.fullmatch(path):
            return {"served": served["line"]}
        parts = infer_storage_options(path)
        found = {"host": parts.get("host"), "user": parts.get("username"), "ssh_port": parts.get("port")}
        return {name: value for name, value in found.items() if value}

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        return row(path, Entry("directory") if is_root(path) else self.session.find(path))

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        path = self._strip_protocol(path)
        try:
            entries = self.session.listing(path)
        except NotADirectoryError:
            rows = [self.info(path)]
        else:
            rows = rows_below(path, entries)
        return rows if detail else [one["name"] for one in rows]

    def walk(
        self,
        path: str,
        maxdepth: Optional[int] = None,
        topdown: bool = True,
        on_error: Union[str, Callable[[OSError], Any]] = "omit",
        detail: bool = False,
        **_: Any,
    ) -> Iterator[tuple[str, Any, Any]]:
        """As in fsspec, by one listing of the whole tree."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        top = self._strip_protocol(path)
        try:
            entries = self.session.listing(top) if maxdepth == 1 else self.place.listing(top, maxdepth)
        except OSError as error:
            if on_error == "raise":
                raise
            if callable(on_error):
                on_error(error)
            return
        tree: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {top: ({}, {})}
        for found in rows_below(top, entries):
            parent, _, name = found["name"].rpartition("/")
            tree.setdefault(parent or "/", ({}, {}))[0 if found["type"] == "directory" else 1][name] = found
            if found["type"] == "directory" and (maxdepth is None or depth_below(top, found["name"]) < maxdepth):
                tree.setdefault(found["name"], ({}, {}))
        for folder in sorted(tree, reverse=not topdown):
            directories, files = tree[folder]
            yield (folder, directories, files) if detail else (folder, list(directories), list(files))

    def find(
        self,
        path: str,
        maxdepth: Optional[int] = None,
        withdirs: bool = False,
        detail: bool = False,
        **_: Any,
    ) -> Any:
        """As in fsspec, by one listing of the whole tree."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        top = self._strip_protocol(path)
        try:
            entries = self.session.listing(top) if maxdepth == 1 else self.place.listing(top, maxdepth)
        except NotADirectoryError:
            rows = [self.info(top)]
        except OSError:
            rows = []
        else:
            rows = [row(top, Entry("directory"))] if withdirs else []
            rows += [one for one in rows_below(top, entries) if withdirs or one["type"] != "directory"]
        found = {one["name"]: one for one in sorted(rows, key=lambda one: str(one["name"]))}
        return found if detail else list(found)

    def du(
        self, path: str, total: bool = True, maxdepth: Optional[int] = None, withdirs: bool = False, **_: Any
    ) -> Union[int, dict[str, int]]:
        """As in fsspec, by one listing of the whole tree."""
        found = self.find(path, maxdepth=maxdepth, withdirs=withdirs, detail=True)
        sizes = {name: info["size"] for name, info in found.items()}
        return sum(sizes.values()) if total else sizes

    def exists(self, path: str, **_: Any) -> bool:
        """Whether there is such an entry. A host that cannot be asked is an exception."""
        return self._kind(path) is not None

    def isfile(self, path: str) -> bool:
        """As ``exists``, of a file."""
        return self._kind(path) == "file"

    def isdir(self, path: str) -> bool:
        """As ``exists``, of a directory."""
        return self._kind(path) == "directory"

    def _kind(self, path: str) -> Optional[str]:
        try:
            return str(self.info(path)["type"])
        except (FileNotFoundError, NotADirectoryError):
            return None

    def modified(self, path: str) -> datetime:
        """The time of last modification, in UTC."""
        mtime = self.info(path)["mtime"]
        if mtime is None:
            raise NotImplementedError(f"{path}: haul does not know when it was modified")
        return datetime.fromtimestamp(mtime, timezone.utc)

    def created(self, path: str) -> datetime:
        raise NotImplementedError(f"{path}: haul does not ask when files were created; modified() tells the last change")

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        if self.exists(path):
            raise FileExistsError(17, "it exists already", path)
        if not create_parents and not self.isdir(parent_of(path)):
            raise FileNotFoundError(2, "no such directory", parent_of(path))
        self.place.make_directory(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        try:
            kind = self.info(path)["type"]
        except FileNotFoundError:
            self.place.make_directory(path)
            return
        if not exist_ok or kind != "directory":
            raise FileExistsError(17, "it exists already", path)

    def rmdir(self, path: str) -> None:
        path = self._strip_protocol(path)
        if self.ls(path, detail=False):
            raise OSError(39, "the directory is not empty", path)
        self.place.remove(path, recursive=True)

    def rm_file(self, path: str) -> None:
        self.place.remove(self._strip_protocol(path), recursive=False)

    _rm = rm_file

    def rm(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        """As in fsspec; a directory with all that is in it is one operation."""
        for one in self.expand_path(path, recursive=False):
            if recursive and maxdepth is not None:
                for below in reversed(self.expand_path(one, recursive=True, maxdepth=maxdepth)):
                    self.place.remove(below, recursive=True)
            else:
                self.place.remove(one, recursive=recursive)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        ends = self.place.operand(source), self.place.operand(target)
        try:
            with os_errors(source):
                self.place.make_parent_and_retry(
                    target, lambda: commands.copy(*ends, overwrite=True, **self.place.connection)
                )
        except IsADirectoryError:
            self.makedirs(target, exist_ok=True)

    def get_file(self, rpath: str, lpath: Any, callback: Any = DEFAULT_CALLBACK, outfile: Any = None, **_: Any) -> None:
        rpath = self._strip_protocol(rpath)
        if outfile is not None or hasattr(lpath, "write"):
            with PipeReader(self.place, rpath) as source:
                copy_stream(source, outfile if outfile is not None else lpath, callback)
            return
        lpath = os.fspath(lpath)
        os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
        try:
            with os_errors(rpath):
                target = os.fsencode(local_operand(lpath))
                summary = commands.copy(self.place.operand(rpath), target, overwrite=True, **self.place.connection)
        except IsADirectoryError:
            os.makedirs(lpath, exist_ok=True)
            return
        tell(callback, summary)

    def put_file(
        self, lpath: Any, rpath: str, callback: Any = DEFAULT_CALLBACK, mode: str = "overwrite", **_: Any
    ) -> None:
        rpath, lpath = self._strip_protocol(rpath), os.fspath(lpath)
        if os.path.isdir(lpath):
            self.makedirs(rpath, exist_ok=True)
            return
        if mode == "create" and self.exists(rpath):
            raise FileExistsError(17, "it exists already", rpath)
        size = os.path.getsize(lpath)
        callback.set_size(size)
        self.place.send(lpath, rpath, overwrite=mode != "create")
        callback.relative_update(size)

    def get(
        self,
        rpath: Any,
        lpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: Optional[int] = None,
        **kwargs: Any,
    ) -> None:
        """As in fsspec; a whole directory is one run of haul."""
        if not (recursive and maxdepth is None and is_plain(rpath) and is_plain(lpath)):
            super().get(rpath, lpath, recursive, callback, maxdepth, **kwargs)
            return
        source, target = self._strip_protocol(rpath), make_path_posix(lpath)
        if not self.isdir(source):
            super().get(rpath, lpath, recursive, callback, maxdepth, **kwargs)
            return
        is_below = (trailing_sep(target) or LocalFileSystem().isdir(target)) and not trailing_sep(rpath)
        target = os.path.join(target, os.path.basename(source)) if is_below else target
        os.makedirs(target, exist_ok=True)
        tell(callback, self.rsync_get(source, target))

    def put(
        self,
        lpath: Any,
        rpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: Optional[int] = None,
        **kwargs: Any,
    ) -> None:
        """As in fsspec; a whole directory is one run of haul."""
        is_tree = recursive and maxdepth is None and is_plain(lpath) and is_plain(rpath) and os.path.isdir(lpath)
        if not is_tree:
            super().put(lpath, rpath, recursive, callback, maxdepth, **kwargs)
            return
        source, target = make_path_posix(lpath), self._strip_protocol(rpath)
        is_below = (trailing_sep(rpath) or self.isdir(target)) and not trailing_sep(lpath)
        target = f"{target.rstrip('/')}/{os.path.basename(source.rstrip('/'))}" if is_below else target
        tell(callback, self.rsync_put(source, target))

    def rsync_get(self, rpath: str, lpath: Any, **options: Any) -> CopySummary:
        """Makes a local directory match a remote one with ``haul sync``; ``options`` are those of ``haul.sync``."""
        source = self._strip_protocol(rpath)
        with os_errors(source):
            target = os.fsencode(local_operand(os.fspath(lpath)))
            operand = self.place.operand(source).rstrip("/") + "/"
            return commands.sync(operand, target, **{**self.place.connection, **options})

    def rsync_put(self, lpath: Any, rpath: str, **options: Any) -> CopySummary:
        """Makes a remote directory match a local one with ``haul sync``; ``options`` are those of ``haul.sync``."""
        target = self._strip_protocol(rpath)
        options = {"make_directories": True, **self.place.connection, **options}
        with os_errors(target):
            source = os.path.join(local_operand(os.fspath(lpath)), "")
            return commands.sync(os.fsencode(source), self.place.operand(target), **options)

    def open(self, path: str, mode: str = "rb", block_size: Optional[int] = None, **kwargs: Any) -> Any:
        """As in fsspec. A file that is written gets its name at the end of the ``with`` block, and none if it fails."""
        if "b" in mode or "r" in mode or kwargs.get("compression") is not None:
            return super().open(path, mode, block_size, **kwargs)
        text = {key: kwargs.pop(key) for key in ("encoding", "errors", "newline") if key in kwargs}
        binary = mode.replace("t", "") + "b"
        return TextWriter(super().open(path, binary, block_size, **kwargs), **text)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: Optional[int] = None,
        autocommit: bool = True,
        cache_options: Any = None,
        **_: Any,
    ) -> Any:
        path = self._strip_protocol(path)
        if mode == "rb":
            return ReadFile(self.session, path, block_size or COPY_BYTES)
        if mode not in ("wb", "xb"):
            raise NotImplementedError(f"mode {mode}: haul reads files, and writes whole files ('rb', 'wb', 'xb')")
        if not autocommit:
            raise NotImplementedError("haul has no transactions: write, and rename with mv")
        if mode == "xb" and self.exists(path):
            raise FileExistsError(17, "it exists already", path)
        if self.auto_mkdir and not is_root(parent_of(path)):
            self.makedirs(parent_of(path), exist_ok=True)
        return PipeWriter(self.place, path, overwrite=mode == "wb")

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **_: Any) -> bytes:
        """A file's bytes, or some of them."""
        path = self._strip_protocol(path)
        version = self.session.open(path)
        first, last, _step = slice(start, end).indices(version.size)
        if (first, last) == (0, version.size) and version.size > PIPE_MIN:
            with PipeReader(self.place, path) as source:
                return bytes(source.readall())
        return self.session.read_range(version, first, last)

    def cat_ranges(
        self, paths: Any, starts: Any, ends: Any, max_gap: Any = None, on_error: str = "return", **_: Any
    ) -> list[Any]:
        """Some of the bytes of each of these paths. They are read one after the other over one connection."""
        starts, ends = (one if isinstance(one, Iterable) else [one] * len(paths) for one in (starts, ends))
        found: list[Any] = []
        for path, start, end in zip(paths, starts, ends):
            try:
                found.append(self.cat_file(path, start, end))
            except OSError as error:
                if on_error != "return":
                    raise
                found.append(error)
        return found

    def tail(self, path: str, size: int = 1024) -> bytes:
        return self.cat_file(path, start=-size)

    def touch(self, path: str, truncate: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        if truncate or not self.exists(path):
            with tempfile.NamedTemporaryFile(prefix="haul-python-") as empty:
                self.place.send(empty.name, path, overwrite=True)
        else:
            raise NotImplementedError("haul cannot set the time of a remote file")


def row(path: str, entry: Entry) -> dict[str, Any]:
    return {"name": path, "size": entry.size, "type": KINDS.get(entry.kind, "other"), "mtime": entry.mtime}


def rows_below(top: str, entries: dict[str, Entry]) -> list[dict[str, Any]]:
    prefix = top.rstrip("/")
    return [row(f"{prefix}/{name}", entry) for name, entry in sorted(entries.items())]


def depth_below(top: str, path: str) -> int:
    return path[len(top.rstrip("/")) :].count("/")


def is_plain(path: Any) -> bool:
    """Whether a path is one, and no pattern."""
    return isinstance(path, (str, os.PathLike)) and not any(char in os.fspath(path) for char in "*?[")


def tell(callback: Any, summary: CopySummary) -> None:
    callback.set_size(summary.bytes)
    callback.relative_update(summary.bytes)


def copy_stream(source: Any, target: Any, callback: Any) -> None:
    while block := source.read(COPY_BYTES):
        target.write(block)
        callback.relative_update(len(block))
