"""The table of TensorFlow's operators in docs/how-to-import-tensorflow.md, from the rows of the importer.

Usage: tensorflow_operators.py           writes the table anew
"""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/how-to-import-tensorflow.md"
HEAD = "| family | operators |\n|---|---|\n"


def rows() -> dict[str, list[str]]:
    """The operators of each file of rows: the first text of each row of its table."""
    found = {}
    for path in sorted((ROOT / "src/import/tensorflow").glob("rows_*.c")):
        text = path.read_text()
        table = text[text.index("kRows[] = {") :]
        family = path.stem.removeprefix("rows_").replace("_", " ")
        found[family] = sorted(set(re.findall(r'[{(]\s*"([A-Z]\w+)"', table)))
    return found


def table() -> str:
    lines = [f"| {family} | {' '.join(f'`{op}`' for op in ops)} |\n" for family, ops in rows().items() if ops]
    return HEAD + "".join(lines)


def main() -> None:
    text = PAGE.read_text()
    PAGE.write_text(text[: text.index("## Operators\n")] + "## Operators\n\n" + table())


if __name__ == "__main__":
    main()
