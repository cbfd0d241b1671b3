"""The page about TensorFlow lists the operators that there are."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/dev"))

from tensorflow_operators import PAGE, rows, table  # noqa: E402


def test_operators_are_those_of_the_rows() -> None:
    assert sum(len(ops) for ops in rows().values()) > 150
    assert table() in PAGE.read_text(), "python3 tools/dev/tensorflow_operators.py writes the table anew"
