"""Plugins as functions: register describes the outputs, impl computes them, autotune lists supported types and formats.

import carnot.plugin as trtp

@trtp.register("mine::scale")
def _(x: trtp.TensorDesc, factor: float) -> trtp.TensorDesc:
    return x.like()

@trtp.impl("mine::scale")
def _(x: trtp.Tensor, factor: float, outputs, stream) -> None:
    np.multiply(x, factor, out=np.asarray(outputs[0]))

network.add_plugin(trtp.op.mine.scale(tensor, factor=2.0))
"""

from __future__ import annotations

from .descs import (
    Shape,
    ShapeExpr,
    ShapeExprs,
    SizeTensorDesc,
    SizeTensorShapeExpr,
    SymExprs,
    SymInt8,
    SymInt16,
    SymInt32,
    SymIntExprs,
    Tensor,
    TensorDesc,
    cdiv,
    from_shape_expr,
    max,  # noqa: A004 - TensorRT's names
    min,  # noqa: A004
    size_tensor,
)
from .functions import AutoTuneCombination, aot_impl, autotune, impl, op, register
from .types import ISymExpr as SymExpr
from .types import KernelLaunchParams
