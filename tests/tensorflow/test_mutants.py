"""Mutants of small models are imported or refused, in bounded memory. CARNOT_MUTANTS: their number for each model."""

import os
import pathlib
import subprocess
import sys

import pytest
from harness import CARNOT, ROOT

NAMES = "signature control conv loop_v1 table complex".split()


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("seeds")
    for kind in ("models", "bundles"):
        (folder / kind).mkdir()
    script = [sys.executable, ROOT / "tools/dev/tensorflow_seeds.py", folder / "models", folder / "bundles"]
    subprocess.run(script, check=True)
    return folder / "models"


@pytest.mark.parametrize("name", NAMES)
def test_mutants(seeds: pathlib.Path, name: str) -> None:
    program = pathlib.Path(CARNOT).parent / "tensorflow_mutants"
    count = os.environ.get("CARNOT_MUTANTS", "2000")
    done = subprocess.run([program, count, seeds / name], capture_output=True, text=True)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr}"
    assert int(done.stdout.split(" mutants, ")[1].split(" imported")[0]) > 0, done.stdout
    print(done.stdout)
