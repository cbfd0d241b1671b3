"""A case of one operator of TensorFlow: its inputs and attributes as tf.raw_ops takes them."""

import dataclasses

import numpy as np

CASES: list["Case"] = []
RNG = np.random.default_rng(18)


@dataclasses.dataclass(frozen=True)
class Constant:
    """An input that is a Const node; arrays are placeholders."""

    value: np.ndarray


@dataclasses.dataclass(frozen=True)
class Case:
    """|outputs|: which outputs count; None: all. |open_sizes|: the graph is also written without the inputs' sizes."""

    op: str
    name: str
    arguments: dict
    outputs: tuple | None = None
    open_sizes: bool = True
    rel: float = 1e-4
    refused: str = ""
    refused_open: str = ""

    @property
    def id(self) -> str:
        return f"{self.op}-{self.name}"


def case(
    op: str,
    name: str = "plain",
    outputs: tuple | None = None,
    open_sizes: bool = True,
    rel: float = 1e-4,
    refused: str = "",
    refused_open: str = "",
    **arguments: object,
) -> None:
    new = Case(op, name, arguments, outputs, open_sizes, rel, refused, refused_open or refused)
    assert new.id not in {c.id for c in CASES}, new.id
    CASES.append(new)


def f(*sizes: int, low: float = -3, high: float = 3, dtype: str = "f4") -> np.ndarray:
    return np.asarray(RNG.uniform(low, high, sizes), dtype)


def i(*sizes: int, low: int = -9, high: int = 9, dtype: str = "i4") -> np.ndarray:
    return np.asarray(RNG.integers(low, high, sizes), dtype)


def b(*sizes: int) -> np.ndarray:
    return np.asarray(RNG.integers(0, 2, sizes), bool)


def k(value: object, dtype: str | None = None) -> Constant:
    """A constant; lists of integers are int32."""
    a = np.asarray(value)
    return Constant(a.astype(dtype or {"i": "i4", "f": "f4"}.get(a.dtype.kind, a.dtype)))
