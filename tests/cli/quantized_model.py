"""Small quantized networks (tests/quantized_rule.py) by the command line on one ISA level of the processor."""

import pathlib
import re
import sys

from harness import passes

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import quantized_rule

LEVELS = ["scalar", "avx2", "avx512", "avx512vnni"]
LEVELS = [level for level in LEVELS if re.search(rf"^ +{level} +usable", passes("device", "--no-measure"), flags=re.M)]


class Model(quantized_rule.Model):
    def run(self, folder: pathlib.Path, outputs: dict, isa: str, *flags: str) -> tuple[list, list]:
        return super().run(folder, outputs, passes, f"--isa={isa}", "--builderOptimizationLevel=0", *flags)
