"""Runs the program `ferry`, which wheels carry; a build from a checkout uses the one on the path."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
from typing import Optional


def find() -> Optional[str]:
    own = pathlib.Path(__file__).parent / "bin" / "ferry"
    if own.is_file():
        return str(own)
    found = shutil.which("ferry")
    return found if found and _is_binary(found) else None


def _is_binary(path: str) -> bool:
    """Not the script of that name which calls main() of this file."""
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def main() -> int:
    program = find()
    if program is None:
        print("ferry: this installation has no program `ferry`; install a wheel made by tools/wheel, or build it from "
              "the checkout with `cmake --build --preset release`", file=sys.stderr)
        return 1
    os.execv(program, [program, *sys.argv[1:]])
