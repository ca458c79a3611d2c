"""The same for asyncio."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from conftest import Server, is_alive, within

import haul
from haul import aio, events

pytestmark = pytest.mark.usefixtures("no_process_left")
T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine with a limit."""
    return asyncio.run(asyncio.wait_for(work, 30))


def test_jobs_run_at_once(tree: Path, server: Server, tmp_path: Path) -> None:
    async def work() -> None:
        local, remote = await asyncio.gather(
            aio.copy(tree, tmp_path / "copy", recursive=True), aio.copy(tree, server.line, recursive=True)
        )
        assert local.files_copied == remote.files_copied == 3 and remote.transport.kind == "tcp"
        assert (await aio.verify(tree, server.line, recursive=True)).identical
        assert (await aio.survey(tree, no_sample=True)).files == 3
        assert (await aio.sync(f"{tree}/", tmp_path / "copy")).files_copied == 0

    run(work())


def test_a_cancelled_task_ends_the_job_and_the_call_resumes(big: Path, tmp_path: Path) -> None:
    async def work() -> None:
        moving = asyncio.Event()

        def note(event: haul.Event) -> None:
            if isinstance(event, haul.Progress) and event.bytes_written > 0:
                moving.set()

        task = asyncio.ensure_future(aio.copy(big, tmp_path / "copy", rate="4m", on_event=note))
        await moving.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        summary = await aio.copy(big, tmp_path / "copy")
        assert summary.files_copied == 1 and summary.bytes < big.stat().st_size

    run(work())
    assert (tmp_path / "copy").read_bytes() == big.read_bytes()


def test_a_task_that_is_cancelled_at_the_start_leaves_nothing(big: Path, tmp_path: Path) -> None:
    async def work() -> None:
        for turns in range(12):
            task = asyncio.ensure_future(aio.copy(big, tmp_path / "copy", rate="1m"))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(work())


def test_a_task_that_is_cancelled_twice_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = tmp_path / "deaf"
    deaf.write_text('#!/bin/sh\ntrap "" INT TERM\nprintf \'{"event":"notice"}\\n\'\nwhile :; do sleep 0.1; done\n')
    deaf.chmod(0o755)
    monkeypatch.setenv("HAUL_BIN", str(deaf))

    async def work() -> None:
        up = asyncio.Event()
        task = asyncio.ensure_future(aio.copy("a", "b", on_event=lambda event: up.set()))
        await up.wait()
        task.cancel()
        await asyncio.sleep(0.3)
        assert not task.done(), "it waits for the job's end"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)

    run(work())


def test_an_exception_in_the_block_ends_the_job(big: Path, tmp_path: Path) -> None:
    async def work() -> None:
        with pytest.raises(KeyError):
            async with aio.start_copy(big, tmp_path / "copy", rate="1m") as transfer:
                async for event in transfer:
                    if isinstance(event, events.Connected):
                        raise KeyError
        assert not transfer.is_running
        with pytest.raises(haul.Interrupted):
            await transfer.result()

    run(work())


def test_a_forgotten_transfer_is_ended(big: Path, tmp_path: Path) -> None:
    async def work() -> int:
        transfer = await aio.start_copy(big, tmp_path / "copy", rate="1m").start()
        assert transfer.is_running and transfer.pid is not None
        return transfer.pid

    pid = run(work())
    gc.collect()
    within(5, lambda: not is_alive(pid), "it runs on")


def test_errors_are_the_same(tmp_path: Path) -> None:
    async def work() -> None:
        with pytest.raises(haul.PartialFailure):
            await aio.start_copy(tmp_path / "missing", tmp_path / "copy")
        with pytest.raises(haul.UsageError):
            await aio.copy("a", "b", options=["--bogus"])

    run(work())
