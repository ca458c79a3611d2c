"""Exceptions for what haul says, with keywords of Python in the place of options."""

from __future__ import annotations

import functools
import re
from typing import Union, get_args, get_origin, get_type_hints

from ._options import LETTERS, CopyOptions, JobPlanOptions, JobRunOptions, ProbeOptions, SurveyOptions, long_option
from .errors import BY_STATUS, HaulError, Killed, UnexpectedOutput

OPTION = re.compile(r"`[^`]*`|(?<!'s )(?<![\w/=.-])(?P<option>--[a-z][a-z-]*|-[A-Za-z])(?![\w-])")
"""An option in a sentence. What stands in backquotes, or is said to be another program's, is none of haul's."""
REFUSED_VALUE = re.compile(r"(?P<option>--[a-z][a-z-]*|-[A-Za-z])[ =](?P<value>[^:]*): ")
"""How a message begins that refuses an option's argument."""


@functools.lru_cache(maxsize=None)
def keywords_of_options() -> dict[str, tuple[str, bool]]:
    """Each option with its keyword, and whether ``True`` is a value of it."""
    found: dict[str, tuple[str, bool]] = {}
    for kind in (SurveyOptions, ProbeOptions, JobRunOptions, JobPlanOptions, CopyOptions):
        for keyword, hint in get_type_hints(kind).items():
            is_flag = hint is bool or (get_origin(hint) is Union and bool in get_args(hint))
            found[long_option(keyword)] = (keyword, is_flag)
    return {**found, **{letter: found[long_option(keyword)] for letter, keyword in LETTERS.items()}}


def in_python(text: str) -> str:
    """A message or hint with keywords: ``overwrite=True`` for ``-f``. Options without a keyword stay."""

    def keyword(match: re.Match[str]) -> str:
        known = keywords_of_options().get(match["option"] or "")
        return match[0] if known is None else f"{known[0]}={'True' if known[1] else '...'}"

    refused = REFUSED_VALUE.match(text)
    known = keywords_of_options().get(refused["option"]) if refused is not None else None
    if refused is not None and known is not None:
        return f"{known[0]}={refused['value']!r}: {OPTION.sub(keyword, text[refused.end() :])}"
    return OPTION.sub(keyword, text)


def error_of(status: int, text: str) -> HaulError:
    """The exception for an exit status and what haul wrote: the first line is the message, the others are the hint."""
    first, _, rest = text.strip().partition("\n")
    if status < 0:
        return Killed(f"haul was killed by signal {-status}", hint="run the same call again to resume", status=status)
    lines = (line.strip() for line in rest.splitlines())
    hint = "\n".join(line[len("hint: ") :] if line.startswith("hint: ") else line for line in lines)
    kind = BY_STATUS.get(status, UnexpectedOutput)
    message = in_python(first) if first else f"haul ended with status {status} and said nothing"
    return kind(message, hint=in_python(hint), status=status)
