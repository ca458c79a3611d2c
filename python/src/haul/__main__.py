"""``python -m haul``: runs the executable ``haul`` with the same arguments."""

from __future__ import annotations

import os
import sys

from ._executable import find_executable
from .errors import ExecutableNotFound


def main() -> None:
    try:
        executable = find_executable()
    except ExecutableNotFound as error:
        sys.exit(f"haul: {error}")
    os.execv(executable, [executable, *sys.argv[1:]])


if __name__ == "__main__":
    main()
