"""Inputs and references of the layer tests: NumPy in double precision, or torch."""

import numpy as np
import pytest

rng = np.random.default_rng(7)


try:
    import torch

    F = torch.nn.functional
except ImportError:
    torch = F = None


needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def close(got, wanted, tolerance=2e-5):
    wanted = wanted.double().numpy() if torch and isinstance(wanted, torch.Tensor) else np.asarray(wanted)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)


def t64(array):
    return torch.from_numpy(np.asarray(array)).double()
