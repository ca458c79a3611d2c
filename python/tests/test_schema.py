"""The dataclasses have the names and types of the published schema, ``docs/reference/json.schema.json``."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, Union

import pytest

from haul import events, summaries
from haul._decode import field_types

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/reference/json.schema.json").read_text())
# Fields that no line has: the client gathers them from several lines.
GATHERED = {
    summaries.VerifySummary: {"different"},
    summaries.SurveySummary: {
        "sizes",
        "biggest_directories",
        "biggest_files",
        "types",
        "duplicate_sets",
        "failures",
    },
    summaries.Forecast: {"checks", "ends", "parts"},
}
# A probe has checks in the place of failed files, and a survey counts what it cannot read.
ABSENT = {summaries.Forecast: {"failed"}, summaries.SurveySummary: {"failed"}}
JSON_TYPES = {int: {"integer"}, float: {"number", "integer"}, str: {"string"}, bool: {"boolean"}, dict: {"object"}}


def alternatives(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The objects that ``node`` permits."""
    if "$ref" in node:
        yield from alternatives(SCHEMA["$defs"][node["$ref"].rsplit("/", 1)[-1]])
    elif "anyOf" in node or "oneOf" in node:
        for one in node.get("anyOf", node.get("oneOf", [])):
            yield from alternatives(one)
    else:
        yield node


def json_types(node: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    for one in alternatives(node):
        stated = one.get("type", "string")
        found |= set(stated) if isinstance(stated, list) else {str(stated)}
    return found


def mismatches(kind: type[Any], node: dict[str, Any], where: str) -> Iterator[str]:
    """What is not the same in a dataclass and an object of the schema."""
    properties = node.get("properties", {})
    excluded = {"event", "extra"} | GATHERED.get(kind, set()) | ABSENT.get(kind, set())
    for name, hint in field_types(typing.cast(Hashable, kind)).items():
        if name in excluded:
            continue
        if name not in properties:
            yield f"{where}.{name}: not in the schema"
        else:
            yield from type_mismatches(hint, properties[name], f"{where}.{name}")


def type_mismatches(hint: Any, node: dict[str, Any], where: str) -> Iterator[str]:
    if hint is Any:
        return
    stated = json_types(node)
    if typing.get_origin(hint) is Union:
        (hint,) = (one for one in typing.get_args(hint) if one is not type(None))
        stated -= {"null"}
    if typing.get_origin(hint) is tuple:
        arrays = [one for one in alternatives(node) if "items" in one]
        for array in arrays:
            yield from type_mismatches(typing.get_args(hint)[0], array["items"], f"{where}[]")
        if not arrays:
            yield f"{where}: no array in the schema"
    elif dataclasses.is_dataclass(hint):
        for one in alternatives(node):
            if one.get("type") not in ("null", ["null"]):
                yield from mismatches(typing.cast(type[Any], hint), one, where)
    else:
        expected = JSON_TYPES[typing.get_origin(hint) or hint]
        if not stated <= expected:
            yield f"{where}: {hint} where the schema has {sorted(stated)}"


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("copy", summaries.COPY),
        ("copy", summaries.VERIFY),
        ("survey", summaries.SURVEY),
        ("probe", summaries.PROBE),
    ],
    ids=["copy", "verify", "survey", "probe"],
)
def test_dataclasses_are_as_the_schema_says(name: str, kinds: dict[str, type[events.Event]]) -> None:
    lines: dict[str, list[dict[str, Any]]] = {}
    for one in alternatives(SCHEMA["$defs"][name]):
        event = one.get("properties", {}).get("event", {}).get("const")
        if event is not None:
            lines.setdefault(event, []).append(one)
    checked = 0
    for event, kind in kinds.items():
        if event not in lines:
            continue
        checked += 1
        # A copy and a comparison have different summaries: one of them fits.
        found = [list(mismatches(kind, one, f"{name}.{event}")) for one in lines[event]]
        assert [] in found, found
    assert checked >= 5
