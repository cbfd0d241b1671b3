"""Writes the stub of the enumerations, which are made at import: build_stubs.py ENUMS.py OUT.pyi"""

import runpy
import sys


def main() -> None:
    source, out = sys.argv[1:]
    made = runpy.run_path(source)["_made"]
    lines = [
        "import enum",
        "from typing import Any, ClassVar, Dict",
        "",
        "class _Enum(enum.Enum):",
        "    __members__: ClassVar[Dict[str, Any]]  # type: ignore[assignment]",
        "    def __int__(self) -> int: ...",
        "    def __index__(self) -> int: ...",
        "",
    ]
    for name, kind in made.items():
        lines += [f"class {name}(_Enum):"]
        lines += [f"    {member} = {value.value}" for member, value in kind.__members__.items()] + [""]
    with open(out, "w") as file:
        file.write("\n".join(lines))


if __name__ == "__main__":
    main()
