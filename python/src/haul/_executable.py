"""Finds the executable ``haul``."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

from .errors import ExecutableNotFound

NAME = "haul"
VARIABLE = "HAUL_BIN"


def find_executable() -> str:
    """The path of the executable.

    ``HAUL_BIN`` has precedence. Then come the scripts folder of this installation and ``PATH``.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if is_executable(Path(named)):
            return named
        raise ExecutableNotFound(
            f"{VARIABLE}={named}: not an executable file", hint=f"correct {VARIABLE}, or unset it"
        )
    for folder in script_folders():
        if is_executable(folder / NAME):
            return str(folder / NAME)
    found = shutil.which(NAME)
    if found is not None:
        return found
    searched = ", ".join([*map(str, script_folders()), "PATH"])
    raise ExecutableNotFound(
        f"the executable {NAME} was not found in: {searched}",
        hint=f"pip install haul-transfer, or set {VARIABLE} to its path",
    )


def script_folders() -> list[Path]:
    """Where installers put the executable of the wheel, most specific first.

    ``pip install --target DIR`` uses ``DIR/bin`` beside the module.
    """
    beside = Path(__file__).resolve().parent.parent / "bin"
    folders = [beside, Path(sysconfig.get_path("scripts"))]
    user_scheme = f"{os.name}_user"
    if user_scheme in sysconfig.get_scheme_names():
        folders.append(Path(sysconfig.get_path("scripts", user_scheme)))
    return folders


def is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
