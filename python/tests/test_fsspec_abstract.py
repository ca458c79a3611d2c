"""fsspec's own tests of file systems: all of them on this machine, and some over a ``haul serve`` on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fsspec")

import fsspec.tests.abstract as abstract
from conftest import start_server

from haul.fsspec import HaulFileSystem


class LocalFixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self) -> HaulFileSystem:
        return HaulFileSystem(skip_instance_cache=True)

    @pytest.fixture
    def fs_path(self, tmp_path: Path) -> str:
        path = tmp_path / "fs"
        path.mkdir()
        return str(path)

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return True


class TestCopy(abstract.AbstractCopyTests, LocalFixtures):
    pass


class TestGet(abstract.AbstractGetTests, LocalFixtures):
    pass


class TestPut(abstract.AbstractPutTests, LocalFixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, LocalFixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, LocalFixtures):
    pass


class ServedFixtures(LocalFixtures):
    @pytest.fixture
    def fs(self, tmp_path: Path) -> Iterator[HaulFileSystem]:
        directory = tmp_path / "served"
        directory.mkdir()
        server = start_server(directory)
        yield HaulFileSystem(served=server.line, skip_instance_cache=True)
        server.stop()

    @pytest.fixture
    def fs_path(self) -> str:
        return "/"


class TestServedOpen(abstract.AbstractOpenTests, ServedFixtures):
    pass


class TestServedPipe(abstract.AbstractPipeTests, ServedFixtures):
    pass


class TestServed(ServedFixtures):
    test_copy_directory = abstract.AbstractCopyTests.test_copy_directory_to_existing_directory
    test_copy_list = abstract.AbstractCopyTests.test_copy_list_of_files_to_new_directory
    test_get_directory = abstract.AbstractGetTests.test_get_directory_to_existing_directory
    test_get_file = abstract.AbstractGetTests.test_get_file_to_existing_directory
    test_get_glob = abstract.AbstractGetTests.test_get_glob_to_new_directory
    test_put_directory = abstract.AbstractPutTests.test_put_directory_to_existing_directory
    test_put_file = abstract.AbstractPutTests.test_put_file_to_file_in_new_directory
    test_put_glob = abstract.AbstractPutTests.test_put_glob_to_new_directory
