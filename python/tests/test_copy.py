"""copy, sync, verify, survey and probe: results and events."""

from __future__ import annotations

import errno
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Server

import haul
from haul import events


def test_a_copy_returns_its_summary_and_names_each_file(tree: Path, tmp_path: Path) -> None:
    seen: list[events.Event] = []
    summary = haul.copy(tree, tmp_path / "copy", recursive=True, on_event=seen.append)
    assert (summary.files_copied, summary.bytes, summary.failed, summary.status) == (3, 100_001, 0, 0)
    files = {event.path: event for event in seen if isinstance(event, events.File)}
    assert set(files) == {"a", "below/empty", os.fsdecode(b"\xffname")}
    assert files["a"].copied and files["a"].blake3 is not None and len(files["a"].blake3) == 64
    assert all((tmp_path / "copy" / path).exists() for path in files), "paths are those of Python's file functions"
    assert summary.transport.kind == "local" and "bytes_on_wire" in summary.extra
    again = haul.copy(tree, tmp_path / "copy", recursive=True)
    assert (again.files_copied, again.files_skipped, again.bytes_skipped) == (0, 3, 100_001)


def test_summaries_are_short_lines(tree: Path, tmp_path: Path) -> None:
    summary = haul.copy(tree / "a", tmp_path / "copy")
    assert re.fullmatch(r"1 file, 100 kB in [0-9.]+ s: .*B/s.*", str(summary))
    again = haul.copy(tree / "a", tmp_path / "copy")
    assert str(again).endswith("; 1 skipped") and "0 files, 0 B" in str(again)
    assert str(haul.verify(tree / "a", tmp_path / "copy")) == "1 file compared: identical"
    assert summary._repr_html_() == f"<pre>{summary}</pre>" and repr(summary).startswith("CopySummary(")
    assert "&lt;" in haul.Forecast(bytes_per_s=1e6, limit="<b>")._repr_html_()
    assert str(haul.survey(tree, no_sample=True)) == "3 files, 100 kB"


def test_the_module_runs_the_executable_and_has_its_version(executable: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "haul", "--version"]
    run = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and run.stdout.startswith("haul ") and haul.__version__ in run.stdout
    missing = {**os.environ, "HAUL_BIN": str(tmp_path / "none")}
    failed = subprocess.run(words, capture_output=True, text=True, timeout=60, env=missing)
    assert failed.returncode == 1 and "HAUL_BIN" in failed.stderr


def test_progress_reaches_a_function_and_the_total(tree: Path, tmp_path: Path) -> None:
    seen: list[haul.Progress] = []
    haul.copy([tree / "a", tree / "below"], tmp_path, recursive=True, options=["--mkdir"], progress=seen.append)
    assert seen[-1].fraction == 1.0 and seen[-1].files_settled == 2
    assert haul.Progress(bytes_found=10, bytes_written=5).fraction is None, "no total while the walk goes on"
    assert haul.Progress(bytes_found=10, bytes_written=5, walk_complete=True).fraction == 0.5


def test_a_copy_over_tcp_and_back(tree: Path, server: Server, tmp_path: Path) -> None:
    sent = haul.copy(tree, server.line, recursive=True)
    assert sent.transport.kind == "tcp" and sent.cipher is not None and sent.files_copied == 3
    haul.copy(server.at("tree"), tmp_path / "back", recursive=True, compress="off")
    assert haul.verify(tree, tmp_path / "back", recursive=True).identical is False, "tree is not below back"
    assert haul.verify(tree, server.line, recursive=True).identical
    assert (tmp_path / "back" / "a").read_bytes() == (tree / "a").read_bytes()


def test_differences_are_told_and_are_no_exception(tree: Path, tmp_path: Path) -> None:
    haul.copy(tree, tmp_path / "copies", recursive=True, make_directories=True)
    copy = tmp_path / "copies" / "tree"
    (copy / "a").write_bytes(b"b" * 100_000)
    (copy / "more").touch()
    result = haul.verify(tree, tmp_path / "copies", recursive=True)
    assert not result.identical and result.differences == 2
    found = {os.path.basename(one.path): one.differences[0].what for one in result.different}
    assert found == {"a": "content", "more": "extra"}


def test_sync_deletes_and_a_dry_run_does_not(tree: Path, tmp_path: Path) -> None:
    target = tmp_path / "synced"
    target.mkdir()
    (target / "extraneous").touch()
    items: list[str] = []

    def note(event: haul.Event) -> None:
        if isinstance(event, events.Item):
            items.append(f"{event.change} {os.path.basename(event.path)}")

    plan = haul.sync(f"{tree}/", target, delete=True, dry_run=True, on_event=note)
    assert plan.dry_run and plan.deleted == 1 and (target / "extraneous").exists()
    assert (plan.files_planned, plan.bytes_planned) == (3, 100_001)
    assert str(plan) == "3 files, 100 kB to copy; 1 deleted"
    assert "deleted extraneous" in items and "created a" in items
    assert haul.sync(f"{tree}/", target, delete=True).deleted == 1
    assert sorted(os.listdir(target)) == sorted(os.listdir(tree))


def test_filters_take_lists_and_include_precedes(tree: Path, tmp_path: Path) -> None:
    summary = haul.copy(tree, tmp_path / "some", recursive=True, exclude=["*"], include=["/a"])
    assert summary.files_copied == 1 and summary.filtered == 2


def test_a_survey_has_its_tables(tree: Path) -> None:
    result = haul.survey(tree, no_sample=True)
    assert (result.files, result.bytes, result.directories) == (3, 100_001, 2)
    assert sum(row.files for row in result.sizes) == 3
    assert result.sizes[-1].lower <= 100_000 < result.sizes[-1].below
    assert result.biggest_files[0].bytes == 100_000 and result.biggest_directories[0].files == 3


def test_a_probe_predicts_a_rate(tree: Path, tmp_path: Path) -> None:
    forecast = haul.probe(tmp_path, tree / "a", time=1, size="4m")
    assert forecast.bytes_per_s is not None and forecast.bytes_per_s > 0
    assert {part.part for part in forecast.parts} >= {"read", "write", "whole"}
    assert {check.id for check in forecast.checks} >= {"space", "versions"} and forecast.ends[0].cores > 0


def test_a_missing_source_is_a_file_not_found_error(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        haul.copy(tree / "missing", tmp_path / "copy")
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert isinstance(error, haul.SourceNotFound) and error.errno == errno.ENOENT
        assert error.summary.failed == 1 and error.filename == error.failures[0].path
        assert "No such file" in str(error) and error.status == 1


def test_hints_name_keywords(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "b").write_text("b")
    with pytest.raises(haul.PartialFailure, match="overwrite=True"):
        haul.copy(tree / "a", tmp_path / "b")
    with pytest.raises(haul.HaulError, match="recursive=True"):
        haul.copy(tree, tmp_path / "c")
    with pytest.raises(haul.UsageError, match="make_directories=True"):
        haul.copy(tree / "a", tmp_path / "none" / "below")


def test_a_failed_file_is_an_exception_with_the_summary(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(haul.PartialFailure) as caught:
        haul.copy([tree / "a", tree / "missing"], tmp_path / "there")
    error = caught.value
    assert error.status == 1 and error.summary.failed == 1 and not error.resumable
    assert [failed.path for failed in error.failures] == ["missing"] or error.failures[0].path.endswith("missing")
    assert "No such file" in str(error) and (tmp_path / "there" / "a").exists()
    revived = pickle.loads(pickle.dumps(error))
    assert revived.failures == error.failures and str(revived) == str(error)


@pytest.mark.parametrize(
    ("sources", "target", "settings", "kind", "words"),
    [
        ("a", "b", {"bogus": 1}, haul.UsageError, "unknown keyword: bogus"),
        ("a", "b", {"options": ["--bogus"]}, haul.UsageError, "--bogus"),
        ("a", "b", {"rate": "fast"}, haul.UsageError, "rate='fast': must be a rate"),
        ("a\0", "b", {}, haul.UsageError, "NUL"),
        ([], "b", {}, haul.UsageError, "no source"),
        ("-", "b", {}, haul.UsageError, "standard output carries events"),
        (3, "b", {}, haul.UsageError, "3 is no path"),
        (__file__, "no-such-host.invalid:b", {}, haul.Unreachable, "no-such-host.invalid"),
    ],
)
def test_bad_input_is_an_error_with_a_hint(
    sources: object, target: str, settings: dict[str, object], kind: type[haul.HaulError], words: str
) -> None:
    with pytest.raises(kind) as caught:
        haul.copy(sources, target, **settings)  # type: ignore[arg-type]
    assert words in str(caught.value)
    assert caught.value.status in (None, 2, 3)


def test_paths_with_colons_are_local_and_strings_name_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("host:file", "-v", "[x]:y"):
        Path(name).write_text(name)
        haul.copy(Path(name), tmp_path / "copy", overwrite=True)
        assert (tmp_path / "copy").read_text() == name


def test_a_missing_executable_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HAUL_BIN", str(tmp_path / "none"))
    with pytest.raises(haul.ExecutableNotFound, match="not an executable file"):
        haul.copy("a", "b")
    monkeypatch.delenv("HAUL_BIN")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("haul._executable.script_folders", lambda: [tmp_path])
    with pytest.raises(haul.ExecutableNotFound, match="pip install"):
        haul.find_executable()
    (tmp_path / "haul").write_text("#!/bin/sh\nexit 7\n")
    (tmp_path / "haul").chmod(0o755)
    assert haul.find_executable() == str(tmp_path / "haul")
    with pytest.raises(haul.UnexpectedOutput, match="status 7"):
        haul.copy("a", "b")
