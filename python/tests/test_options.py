"""Every keyword is an option of its command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from haul import _decode, _options, _wording, events, summaries
from haul.errors import UnexpectedOutput

OPTIONS_PAGE = Path(__file__).resolve().parents[2] / "docs" / "OPTIONS.md"
COPY_SECTIONS = ("Copying", "Filtering", "Syncing", "Performance", "Connecting", "Integrity", "Output")


def documented(*sections: str) -> set[str]:
    """Long options that stand in the tables of some sections."""
    text = OPTIONS_PAGE.read_text()
    found: set[str] = set()
    for section in sections:
        _, _, rest = text.partition(f"\n## {section}\n")
        assert rest, f"{OPTIONS_PAGE} has no section {section}"
        rows = [line for line in rest.partition("\n## ")[0].splitlines() if line.startswith("| `")]
        found |= {word for line in rows for word in re.findall(r"--[a-z][a-z-]+", line.split("`")[1])}
    return found


@pytest.mark.parametrize(
    ("kind", "sections"),
    [
        (_options.CopyOptions, COPY_SECTIONS),
        (_options.VerifyOptions, ("haul verify",)),
        (_options.JobPlanOptions, ("haul job plan, haul job run", *COPY_SECTIONS)),
        (_options.JobRunOptions, ("haul job plan, haul job run",)),
        (_options.JobVerifyOptions, ("haul job plan, haul job run",)),
        (_options.SurveyOptions, ("haul survey",)),
        (_options.ProbeOptions, ("haul probe", "Performance", "Connecting", "Copying", "Output")),
    ],
)
def test_each_keyword_is_an_option(kind: type[Any], sections: tuple[str, ...]) -> None:
    known = documented(*sections)
    words = {str(_options.words_of(keyword, True)[0]) for keyword in _options.keywords(kind)}
    assert len(words) > 5 and words - known == set()


def test_letters_are_those_of_the_options() -> None:
    rows = re.findall(r"^\| `(-[a-zA-Z]), (--[a-z-]+)", OPTIONS_PAGE.read_text().partition("\n## haul ")[0], re.M)
    letters = {letter: option for letter, option in rows}
    for letter, keyword in _options.LETTERS.items():
        assert letters[letter] == _options.long_option(keyword)
    named = {_options.long_option(keyword) for keyword in _options.keywords(_options.CopyOptions)}
    assert {letter for letter, option in rows if option in named} == set(_options.LETTERS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("use -f to replace it", "use overwrite=True to replace it"),
        ("--xfrrate fast: must be a rate", "rate='fast': must be a rate"),
        ("use fewer streams (-s), or --delete", "use fewer streams (streams=...), or delete=True"),
        ("--exclude a: -f and --tui", "exclude='a': overwrite=True and --tui"),
        ("scp's -r is -r; see `df -i`, run-f and /a/-f", "scp's -r is recursive=True; see `df -i`, run-f and /a/-f"),
    ],
)
def test_options_in_sentences_become_keywords(text: str, expected: str) -> None:
    assert _wording.in_python(text) == expected


def test_values_become_words() -> None:
    settings = {"exclude": ["a", "b"], "include": "c", "streams": 4, "recursive": True, "update": False, "mode": None}
    words = _options.option_words(_options.CopyOptions, settings)
    assert words == ["--include=c", "--exclude=a", "--exclude=b", "--streams=4", "--recursive"]
    assert _options.words_of("link_dest", Path("x")) == ["--link-dest=x"]
    assert _options.words_of("rate", "5m") == ["--xfrrate=5m"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"event":"unheard_of","x":1}', events.Event("unheard_of", {"x": 1})),
        (b'{"event":"connecting","host":"db1"}', events.Connecting("connecting", {}, host="db1")),
        (b'{"event":"file","path":"a","new":[1]}', events.File("file", {"new": [1]}, path="a")),
        (b'{"event":"file","path":"\\ufffda","path_hex":"ff61"}', events.File("file", {}, path="\udcffa")),
        (b'{"event":"rate_limit","bytes_per_s":null}', events.RateLimit("rate_limit", {}, bytes_per_s=None)),
        (b'{"event":"progress","limited_by":{"limit":"x","share":1}}',
         events.Progress("progress", {}, limited_by=events.Bottleneck("x", 1.0))),
    ],
)  # fmt: skip
def test_what_is_not_known_is_kept(line: bytes, expected: events.Event) -> None:
    event = events.parse_event(line, summaries.COPY)
    assert event == expected and event.extra == expected.extra


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"no json", "no event: b'no json'"),
        (b"[]", "no event"),
        (b'{"event":3}', "no event"),
        (b'{"event":"file","bytes":"many"}', "file.bytes: 'many' is not a int"),
        (b'{"event":"file","bytes":true}', "file.bytes"),
        (b'{"event":"file","path":"a","path_hex":"zz"}', "file.path_hex: 'zz' is not hexadecimal"),
        (b'{"event":"progress","limited_by":{"limit":1}}', "progress.limited_by.limit"),
        (b'{"event":"item","reasons":["a",1]}', r"item.reasons[1]"),
    ],
)
def test_what_cannot_be_understood_is_an_error(line: bytes, words: str) -> None:
    with pytest.raises(UnexpectedOutput) as caught:
        events.parse_event(line, summaries.COPY)
    assert words in str(caught.value)


def test_all_classes_of_events_can_be_decoded() -> None:
    kinds = {*summaries.COPY.values(), *summaries.VERIFY.values(), *summaries.SURVEY.values(), *summaries.PROBE.values()}
    assert len(kinds) > 25
    for kind in kinds:
        assert isinstance(_decode.decode(kind, {}, kind.__name__), kind)
