"""Files that are read in any order, over one connection."""

from __future__ import annotations

import gc
import os
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

fsspec = pytest.importorskip("fsspec")

from conftest import Server, children, within  # noqa: E402

import haul  # noqa: E402
from haul._session import OPEN_MAX, READ_MAX  # noqa: E402
from haul.errors import FileChanged  # noqa: E402
from haul.fsspec import HaulFileSystem  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_process_left")


@pytest.fixture
def fs(server: Server) -> HaulFileSystem:
    return HaulFileSystem(served=server.line, skip_instance_cache=True)


def change(path: Path, content: bytes) -> None:
    # Times have the kernel's resolution.
    time.sleep(0.02)
    path.write_bytes(content)


def session_pid(fs: HaulFileSystem) -> int:
    worker = fs.session._worker
    assert worker is not None
    return int(worker.process.pid)


def test_a_file_is_read_in_any_order(fs: HaulFileSystem, server: Server) -> None:
    content = os.urandom(3 * READ_MAX + 7)
    (server.directory / "file").write_bytes(content)
    with fs.open("/file", "rb") as file:
        assert file.seekable() and file.size == len(content)
        assert file.read(10) == content[:10] and file.tell() == 10
        assert file.seek(-5, os.SEEK_END) == len(content) - 5 and file.read() == content[-5:]
        assert file.seek(READ_MAX - 3) and file.read(9) == content[READ_MAX - 3 : READ_MAX + 6]
        assert file.seek(-4, os.SEEK_CUR) and file.read(4) == content[READ_MAX + 2 : READ_MAX + 6]
        assert file.seek(len(content) + 9) and file.read() == b""
        file.seek(0)
        assert file.read() == content
        with pytest.raises((OSError, ValueError)):
            file.seek(-1)
    with fs.open("/file", "rt", encoding="latin-1", newline="") as text:
        assert text.read() == content.decode("latin-1")


def test_ranges_need_one_connection(fs: HaulFileSystem, server: Server) -> None:
    content = os.urandom(100_000)
    (server.directory / "file").write_bytes(content)
    assert fs.cat_file("/file", 10, 20) == content[10:20] and fs.cat_file("/file", start=-7) == content[-7:]
    pid = session_pid(fs)
    assert fs.cat_file("/file", 99_999, 200_000) == content[-1:] and fs.cat_file("/file", 5, 3) == b""
    found = fs.cat_ranges(["/file", "/file", "/none"], [0, 50_000, 0], [10, None, 5])
    assert found[:2] == [content[:10], content[50_000:]] and isinstance(found[2], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(["/none"], 0, 5, on_error="raise")
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda at: fs.cat_file("/file", at, at + 100), range(0, 100_000, 100)))
    assert b"".join(parts) == content and session_pid(fs) == pid


def test_a_large_file_is_read_whole(fs: HaulFileSystem, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    content = os.urandom(2_000_000)
    (server.directory / "file").write_bytes(content)
    monkeypatch.setattr("haul.fsspec.PIPE_MIN", 1_000_000)
    assert fs.cat_file("/file") == content


def test_names_are_any_bytes(fs: HaulFileSystem, server: Server) -> None:
    name = os.fsdecode(b"\xffname")
    (server.directory / name).write_bytes(b"x")
    assert fs.cat_file(f"/{name}") == b"x"


def test_a_changed_file_is_an_error(fs: HaulFileSystem, server: Server) -> None:
    path = server.directory / "file"
    path.write_bytes(b"a" * 3_000_000)
    with fs.open("/file", "rb") as file:
        assert file.read(5) == b"aaaaa"
        change(path, b"b" * 3_000_000)
        file.seek(2_000_000)
        with pytest.raises(FileChanged, match="has changed") as caught:
            file.read(5)
    error = caught.value
    assert isinstance(error, OSError) and error.filename == "/file" and isinstance(error, haul.HaulError)
    revived = pickle.loads(pickle.dumps(error))
    assert str(revived) == str(error) and revived.filename == "/file"
    assert fs.cat_file("/file", 0, 5) == b"bbbbb"


def test_failures_are_those_of_files(fs: HaulFileSystem, server: Server) -> None:
    (server.directory / "link").symlink_to("/etc/passwd")
    for path, kind in [("/none", FileNotFoundError), ("/", IsADirectoryError), ("/link", PermissionError)]:
        with pytest.raises(kind):
            fs.open(path)


@pytest.mark.parametrize("changes", [False, True])
def test_after_a_lost_connection_reads_continue_or_fail(changes: bool, tmp_path: Path) -> None:
    fs = HaulFileSystem(skip_instance_cache=True)
    path = tmp_path / "file"
    path.write_bytes(b"a" * 3_000_000)
    with fs.open(str(path), "rb") as file:
        assert file.read(5) == b"aaaaa"
        lost = session_pid(fs)
        os.kill(int(Path(f"/proc/{lost}/task/{lost}/children").read_text().split()[0]), 9)
        if changes:
            change(path, b"b" * 3_000_000)
        file.seek(2_000_000)
        if changes:
            with pytest.raises(FileChanged):
                file.read(5)
        else:
            assert file.read(5) == b"aaaaa" and session_pid(fs) != lost


def test_a_server_that_is_gone_is_an_exception(fs: HaulFileSystem, server: Server) -> None:
    (server.directory / "file").write_bytes(b"a" * 3_000_000)
    with fs.open("/file", "rb") as file:
        server.stop()
        file.seek(2_000_000)
        with pytest.raises(haul.HaulError):
            file.read(5)


def test_more_files_than_a_session_holds(fs: HaulFileSystem, server: Server) -> None:
    for number in range(OPEN_MAX + 30):
        (server.directory / str(number)).write_bytes(b"%3d" % number * 500_000)
    files = [fs.open(f"/{number}", "rb", block_size=1) for number in range(OPEN_MAX + 30)]
    for at in (0, 1_000_000, 3):
        for number, file in enumerate(files):
            file.seek(at // 3 * 3)
            assert file.read(3) == b"%3d" % number


def test_a_forked_process_reads_over_its_own_connection(fs: HaulFileSystem, server: Server) -> None:
    (server.directory / "file").write_bytes(b"0123456789")
    file = fs.open("/file", "rb", block_size=1)
    assert file.read(1) == b"0"
    pid, (reader, writer) = session_pid(fs), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, file.read(1) + str(session_pid(fs)).encode())
            fs.session.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    told = os.read(reader, 100)
    os.close(reader)
    os.close(writer)
    assert told[:1] == b"1" and int(told[1:]) != pid
    assert file.read(1) == b"1" and session_pid(fs) == pid
    file.close()


def test_a_session_ends_with_its_file_system(server: Server) -> None:
    (server.directory / "file").write_bytes(b"text")
    before = children()
    fs = HaulFileSystem(served=server.line, skip_instance_cache=True)
    assert fs.cat_file("/file") == b"text" and children() > before
    del fs
    gc.collect()
    within(10, lambda: children() <= before)


@pytest.fixture
def frame() -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"number": range(200_000), "text": [f"row {number}" for number in range(200_000)]})


def test_parquet_is_read_by_columns(fs: HaulFileSystem, server: Server, frame: Any) -> None:
    pandas, parquet = pytest.importorskip("pandas"), pytest.importorskip("pyarrow.parquet")
    frame.to_parquet(server.directory / "table.parquet", row_group_size=20_000)
    with fs.open("/table.parquet", "rb") as file:
        group = parquet.ParquetFile(file).read_row_group(7, columns=["number"]).to_pydict()
        assert group == {"number": list(range(140_000, 160_000))}
    found = parquet.read_table("/table.parquet", filesystem=fs, columns=["text"])
    assert found.num_rows == 200_000 and found.column_names == ["text"]
    assert pandas.read_parquet("haul:///table.parquet", storage_options={"served": server.line}).equals(frame)


def test_dask_reads_blocks_of_a_table(server: Server, frame: Any) -> None:
    dataframe = pytest.importorskip("dask.dataframe")
    frame.to_csv(server.directory / "table.csv", index=False)
    options = {"served": server.line}
    by_default = dataframe.read_csv("haul:///table.csv", storage_options=options)
    assert by_default["number"].sum().compute() == sum(range(200_000))
    blocks = dataframe.read_csv("haul:///table.csv", blocksize=500_000, storage_options=options)
    assert blocks.npartitions > 3 and len(blocks) == 200_000
    assert blocks["number"].sum().compute(scheduler="processes", num_workers=2) == sum(range(200_000))
