"""The command carnot of an installed wheel: the program beside the library of the package."""

import os
import pathlib
import sys


def main() -> None:
    """Runs the program in place of this process."""
    program = pathlib.Path(__file__).parent / "carnot"
    if not program.exists():
        sys.exit(f"carnot: the program {program} is missing; a build tree has it in build/bin")
    os.execv(program, ["carnot", *sys.argv[1:]])
