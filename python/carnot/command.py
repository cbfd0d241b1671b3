"""The command carnot of an installed wheel: the program beside the library of the package."""

import os
import pathlib
import shutil
import sys


def main() -> None:
    """Runs the program in place of this process."""
    program = pathlib.Path(__file__).parent / "carnot"
    if not program.exists():
        sys.exit(f"carnot: the program {program} is missing; a build tree has it in build/bin")
    os.execv(program, ["carnot", *sys.argv[1:]])


def find_program() -> str:
    """The program of the package, of the build tree that holds it, or on the search path. FileNotFoundError."""
    package = pathlib.Path(__file__).parent
    for program in (package / "carnot", package.parents[1] / "bin" / "carnot"):
        if program.is_file():
            return str(program)
    found = shutil.which("carnot")
    if not found:
        raise FileNotFoundError("the program carnot is neither in the package nor on the search path")
    return found
