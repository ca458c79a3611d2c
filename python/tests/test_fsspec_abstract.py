"""fsspec's own tests of file systems, over a ``haul serve`` on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fsspec")

import fsspec.tests.abstract as abstract
from conftest import start_server

from haul.fsspec import HaulFileSystem


class HaulFixtures(abstract.AbstractFixtures):
    @pytest.fixture(scope="class")
    def fs(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HaulFileSystem]:
        directory: Path = tmp_path_factory.mktemp("abstract") / "served"
        directory.mkdir()
        server = start_server(directory)
        yield HaulFileSystem(served=server.line, skip_instance_cache=True)
        server.stop()

    @pytest.fixture
    def fs_path(self) -> str:
        return "/"

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return True


class TestCopy(abstract.AbstractCopyTests, HaulFixtures):
    pass


class TestGet(abstract.AbstractGetTests, HaulFixtures):
    pass


class TestPut(abstract.AbstractPutTests, HaulFixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, HaulFixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, HaulFixtures):
    pass
