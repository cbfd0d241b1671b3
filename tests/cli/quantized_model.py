"""Small quantized networks (tests/quantized_rule.py) by the command line on one ISA level of the processor."""

import pathlib
import re
import sys

from harness import passes

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import quantized_rule

LEVELS = ["scalar", "avx2", "avx512", "avx512vnni"]
LEVELS = [level for level in LEVELS if re.search(rf"^ +{level} +usable", passes("device", "--no-measure"), flags=re.M)]
HAS_TILES = re.search(r"^ +amxbf16 +usable", passes("device", "--no-measure"), flags=re.M)
LEVELS_AND_TILES = LEVELS + (["amxbf16"] if HAS_TILES else [])
TILES = ("conv", "conv_few", "gemm", "dynamic_conv", "dynamic_gemm", "matmul_integer")  # families that also have a tactic by AMX tiles


def is_tactic(name: str, family: str, isa: str) -> bool:
    """Whether the tactic is the family's on that level: of AMX by tiles, where they take the sizes."""
    names = [f"cpu_{family}_u8s8_{'avx512' if isa.startswith(('avx512', 'amx')) else isa}"]
    return name in names or (isa == "amxbf16" and family in TILES and name == f"cpu_{family}_s8_tiles_amxbf16")


class Model(quantized_rule.Model):
    def run(self, folder: pathlib.Path, outputs: dict, isa: str, *flags: str) -> tuple[list, list]:
        return super().run(folder, outputs, passes, f"--isa={isa}", "--builderOptimizationLevel=0", *flags)
