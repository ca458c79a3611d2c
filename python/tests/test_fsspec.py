"""What the file system does beyond fsspec's own tests."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

fsspec = pytest.importorskip("fsspec")

from conftest import Server  # noqa: E402

import haul  # noqa: E402
from haul import _secrets  # noqa: E402
from haul._remote import Place  # noqa: E402
from haul.fsspec import HaulFileSystem  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_process_left")


@pytest.fixture
def fs(server: Server) -> HaulFileSystem:
    return HaulFileSystem(served=server.line, skip_instance_cache=True)


def test_no_secret_leaves_in_json_and_pickles() -> None:
    secret = "0f" * 16
    line = f"haul://db1:5031/#{secret}"
    fs = HaulFileSystem(served=line, secret_file="/secret", skip_instance_cache=True)
    by_position = HaulFileSystem(None, None, line)
    assert fs.place.served == by_position.place.served == line
    file = Path(by_position.storage_options["secret_file"])
    assert file.read_text() == secret and file.stat().st_mode & 0o077 == 0
    texts = [fs.to_json(), repr(fs.place), *(pickle.dumps(one).decode("latin-1") for one in (fs, by_position))]
    assert not any(secret in text for text in texts)
    revived = Place(served="haul://db1:5031/", connection={"secret_file": "/secret"})
    assert pickle.loads(pickle.dumps(fs)).place == revived
    by_name = HaulFileSystem(served=line)
    assert secret not in by_name.to_json()
    assert HaulFileSystem.from_json(by_name.to_json()).place.connection == {"secret_file": str(file)}
    public = "haul://db1:5031/in#haul-public-00"
    assert HaulFileSystem(served=public).storage_options == {"served": public}


@pytest.mark.parametrize("host", ["a/b", "haul://a", "[a", "a]", ""])
def test_a_host_is_never_a_local_path(host: str) -> None:
    with pytest.raises(haul.UsageError):
        Place(host=host)
    with pytest.raises(haul.UsageError):
        Place(host="db1", user=host)


def test_listings_have_names_kinds_and_sizes(fs: HaulFileSystem, server: Server, tree: Path) -> None:
    fs.put(str(tree), "/tree", recursive=True)
    (server.directory / "tree" / "link").symlink_to("a")
    rows = {row["name"]: (row["type"], row["size"]) for row in fs.ls("/tree")}
    strange = "/tree/" + os.fsdecode(b"\xffname")
    expected = {"/tree/a": ("file", 100_000), "/tree/below": ("directory", 0), "/tree/link": ("link", 0)}
    assert rows == {**expected, strange: ("file", 1)}
    assert sorted(fs.find("/")) == sorted(["/tree/a", "/tree/below/empty", "/tree/link", strange])
    mtime = (server.directory / "tree" / "a").stat().st_mtime
    assert fs.info("/tree/a") == {"name": "/tree/a", "type": "file", "size": 100_000, "mtime": mtime}
    assert fs.ls("/tree/a", detail=False) == ["/tree/a"] and fs.isdir("/tree/below") and fs.isdir("/")
    assert fs.du("/tree") == 100_001 and fs.glob("/t*/b*/e*") == ["/tree/below/empty"]
    with pytest.raises(FileNotFoundError):
        fs.info("/none")
    with pytest.raises(FileNotFoundError):
        fs.ls("/none")


def test_a_changed_file_of_the_same_size_is_noticed(fs: HaulFileSystem, server: Server, tmp_path: Path) -> None:
    file = server.directory / "table"
    file.write_text("9,9")
    os.utime(file, ns=(0, 1_600_000_000_250_000_000))
    assert fs.modified("/table") == datetime(2020, 9, 13, 12, 26, 40, 250_000, timezone.utc)
    (row,) = fs.ls("/")
    assert row["mtime"] == 1_600_000_000.25
    cached = fsspec.filesystem("filecache", fs=fs, check_files=True, cache_storage=str(tmp_path / "cache"))
    key = fs.ukey("/table")
    assert cached.cat_file("/table") == b"9,9" and fs.ukey("/table") == key
    file.write_text("7,7")
    assert fs.ukey("/table") != key
    assert cached.cat_file("/table") == b"7,7"
    with pytest.raises(NotImplementedError, match="does not ask when files were created"):
        fs.created("/table")


def test_dask_notices_a_changed_file_of_the_same_size(server: Server) -> None:
    read_bytes = pytest.importorskip("dask.bytes").read_bytes
    file = server.directory / "table"

    def key() -> str:
        _, ((block,),) = read_bytes("haul:///table", blocksize=None, served=server.line)
        assert block.compute() == file.read_bytes()
        return str(block.key)

    file.write_text("9,9")
    first = key()
    assert key() == first
    file.write_text("7,7")
    assert key() != first


@pytest.mark.parametrize("question", ["exists", "isfile", "isdir", "info", "ls", "find", "glob"])
def test_a_host_that_cannot_be_asked_is_an_exception(server: Server, question: str) -> None:
    fs = HaulFileSystem(served=server.line, retries=0, skip_instance_cache=True)
    (server.directory / "file").touch()
    assert fs.exists("/file") and fs.isfile("/file") and not fs.isdir("/file")
    assert not fs.exists("/none") and not fs.isfile("/none") and not fs.exists("/file/below")
    server.stop()
    with pytest.raises(haul.Unreachable):
        getattr(fs, question)("/file")


def test_each_name_of_a_file_has_its_size(fs: HaulFileSystem, server: Server) -> None:
    (server.directory / "a").write_text("four")
    os.link(server.directory / "a", server.directory / "b")
    config = Path(os.environ["HOME"], ".config", "haul", "config.toml")
    config.parent.mkdir(parents=True)
    config.write_text("hard-links = true\n")
    assert [row["size"] for row in fs.ls("/")] == [4, 4]


def test_a_written_file_appears_when_it_is_complete(fs: HaulFileSystem, server: Server) -> None:
    target = server.directory / "new" / "file"
    with fs.open("/new/file", "wb") as file:
        file.write(b"x" * 3_000_000)
        assert not target.exists() and file.tell() == 3_000_000
    assert target.stat().st_size == 3_000_000
    with fs.open("/new/text", "w") as text:
        text.write("Grüße\n")
    assert fs.cat_file("/new/text") == "Grüße\n".encode()


@pytest.mark.parametrize("mode", ["wb", "w"])
def test_an_exception_leaves_the_old_file(fs: HaulFileSystem, server: Server, mode: str) -> None:
    fs.pipe_file("/file", b"old")
    with pytest.raises(KeyError):
        with fs.open("/file", mode) as file:
            file.write(b"new" if mode == "wb" else "new")
            file.flush()
            raise KeyError
    assert (server.directory / "file").read_bytes() == b"old"


def test_a_forgotten_writer_makes_no_file(fs: HaulFileSystem, server: Server) -> None:
    file = fs.open("/file", "wb")
    file.write(b"some")
    del file
    gc.collect()
    assert os.listdir(server.directory) == []


def test_why_a_write_fails_is_told(fs: HaulFileSystem, server: Server) -> None:
    fs.mkdir("/directory")
    with pytest.raises((OSError, haul.HaulError)) as caught:
        with fs.open("/directory", "wb") as file:
            for _ in range(200):
                file.write(b"x" * 100_000)
    assert not isinstance(caught.value, BrokenPipeError) and "directory" in str(caught.value)
    with pytest.raises(NotImplementedError, match="whole files"):
        fs.open("/file", "ab")


def test_parts_of_a_file_are_read(fs: HaulFileSystem, tree: Path) -> None:
    fs.put_file(str(tree / "a"), "/a")
    assert fs.cat_file("/a", start=-5) == fs.tail("/a", 5) == b"aaaaa"
    assert fs.cat_file("/a", 3, 7) == b"aaaa" and fs.read_text("/a")[:3] == "aaa"
    with pytest.raises(FileNotFoundError):
        fs.open("/none")
    with pytest.raises(IsADirectoryError):
        fs.open("/")


def test_rsync_both_ways(fs: HaulFileSystem, server: Server, tree: Path, tmp_path: Path) -> None:
    assert fs.rsync_put(tree, "/deep/tree").files_copied == 3
    (server.directory / "deep" / "tree" / "extraneous").touch()
    assert fs.rsync_put(tree, "/deep/tree", delete=True).deleted == 1
    assert fs.rsync_get("/deep/tree", tmp_path / "back").files_copied == 3
    assert fs.rsync_get("/deep/tree", tmp_path / "back").files_copied == 0


def test_removing_takes_no_more_than_what_is_named(fs: HaulFileSystem, server: Server) -> None:
    names = ["a*", "ab", "a[b]", "ab ", "!x", "#y", "a\\b"]
    for name in names:
        fs.touch(f"/d/{name}")
    (server.directory / "d").chmod(0o700)
    for number, name in enumerate(names):
        fs.rm(f"/d/{name}", recursive=True) if not set(name) & set("*[") else fs.rm_file(f"/d/{name}")
        assert sorted(os.listdir(server.directory / "d")) == sorted(names[number + 1 :])
    assert (server.directory / "d").stat().st_mode & 0o777 == 0o700
    fs.rmdir("/d")
    assert not fs.exists("/d")
    with pytest.raises(FileNotFoundError):
        fs.rm_file("/d")


def test_urls_and_places() -> None:
    found = fsspec.core.url_to_fs("haul://ann@db1:2222/archive/run7", auto_mkdir=False)
    assert isinstance(found[0], HaulFileSystem) and found[1] == "/archive/run7"
    assert found[0].place == Place(host="db1", user="ann", connection={"ssh_port": 2222})
    assert found[0].place.operand("/a b") == "ann@db1:/a b"
    assert Place(host="::1").operand("/a") == "[::1]:/a"
    assert Place(served="haul://h:1/#5ec").operand("/") == "haul://h:1/#5ec:."
    assert Place(served="haul://h:1/").operand("/a") == "haul://h:1//a"
    assert Place(served="haul://h:1/in").operand("/a") == "haul://h:1/in/a"
    with pytest.raises(haul.UsageError, match="unknown keyword: colour"):
        HaulFileSystem(colour="red", skip_instance_cache=True)
    with pytest.raises(haul.UsageError, match="both"):
        Place(host="h", served="haul://h/")


def test_a_url_names_a_served_directory(server: Server) -> None:
    (server.directory / "below").mkdir()
    (server.directory / "below" / "a b").write_text("text")
    for separator in ":/":
        url = f"{server.line}{separator}below/a b"
        with fsspec.open(url, "rt") as file:
            assert file.read() == "text"
        opened = fsspec.open(url)
        assert opened.path == "/below/a b" and server.line[-32:] not in repr(pickle.dumps(opened))
    assert fsspec.core.url_to_fs(server.line)[0].ls("/", detail=False) == ["/below"]
    over_ssh = fsspec.core.url_to_fs("haul://db1/archive/a#b")
    assert over_ssh[0].place.host == "db1" and over_ssh[1] == "/archive/a#b"
    assert HaulFileSystem._get_kwargs_from_urls("haul://db1/in#open:a") == {"served": "haul://db1/in#open"}


def read_in_child(fs: HaulFileSystem, pickled: bytes, answers: Any) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers.put(list(pool.map(fs.cat_file, ["/file"] * 4)) + [pickle.loads(pickled).cat_file("/file")])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_threads_and_processes_read_too(fs: HaulFileSystem, server: Server, method: str) -> None:
    (server.directory / "file").write_text("text")
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(fs.cat_file, ["/file"] * 8)) == [b"text"] * 8
        context: Any = multiprocessing.get_context(method)
        answers = context.Queue()
        child = context.Process(target=read_in_child, args=(fs, pickle.dumps(fs), answers))
        child.start()
        assert answers.get(timeout=60) == [b"text"] * 5
        child.join()
    assert fs.cat_file("/file") == b"text", "the child leaves the file with the secret"


def test_a_forked_child_leaves_the_file_with_the_secret() -> None:
    path = Path(_secrets.file_of("0f" * 16))
    _secrets.remove(str(path), os.getppid())
    assert path.exists()
    program = "import os, sys; from haul._secrets import file_of; print(file_of('a'), flush=True)"
    program += "; child = os.fork(); child or sys.exit(); os.waitpid(child, 0); print(os.path.exists(file_of('a')))"
    words = [sys.executable, "-c", program]
    left, existed = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert existed == "True" and not os.path.exists(left), "removed at the end of its process, and not before"


def test_files_are_read_through_a_cache(fs: HaulFileSystem, server: Server, tree: Path, tmp_path: Path) -> None:
    fs.put_file(str(tree / "a"), "/a")
    cache = {"cache_storage": str(tmp_path / "cache")}
    with fsspec.open("simplecache::haul:///a", "rb", simplecache=cache, haul={"served": server.line}) as file:
        file.seek(99_990)
        assert file.read() == b"a" * 10
