"""Finds a Python that has TensorFlow, to write cases with TensorFlow's own results."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent


def write_cases(script: str, folder: pathlib.Path) -> pathlib.Path:
    """Runs |script| of this folder; skips where no TensorFlow is installed."""
    python = sys.executable if importlib.util.find_spec("tensorflow") else os.environ.get("TENSORFLOW_PYTHON")
    if not python:
        pytest.skip("TensorFlow is not installed, and TENSORFLOW_PYTHON names no Python that has it")
    done = subprocess.run([python, HERE / script, folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder
