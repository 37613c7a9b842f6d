"""Automatic differentiation on NumPy arrays: reverse and forward mode, any order, in any mix.

>>> from reference_engine import grad, tensor
>>> from reference_engine import exp, sum
>>> x = tensor([0.0, 1.0], requires_grad=True)
>>> sum(exp(x)).backward()
>>> x.grad
tensor([1.        , 2.71828183], dtype=float64)
>>> grad(lambda x: x**3)(2.0)
array(12.)

Every row of the op table (`reference_engine.op.TABLE`) is a function of this module. Operations on
plain arrays and tensors report overflow and the like as NumPy does; the transformations and
`backward` do not.
"""

from __future__ import annotations

from typing import Any

from reference_engine import ops  # fills the table
from reference_engine.custom import custom_gradient
from reference_engine.dual import jvp
from reference_engine.errors import GraphFreed, ShapeError, WrongGradientShape
from reference_engine.op import SEVERAL, TABLE, find, find_several
from reference_engine.tape import sensitivities
from reference_engine.tensor import Tensor, tensor
from reference_engine.traced import no_grad, to_array
from reference_engine.transforms import grad, hessian, jacobian, value_and_grad, vjp

__all__ = [
    "GraphFreed",
    "ShapeError",
    "Tensor",
    "WrongGradientShape",
    "custom_gradient",
    "grad",
    "hessian",
    "jacobian",
    "jvp",
    "no_grad",
    "ops",
    "sensitivities",
    "tensor",
    "to_array",
    "value_and_grad",
    "vjp",
]


def __getattr__(name: str) -> Any:
    row = find(name) or find_several(name)
    if row is None:
        raise AttributeError(f"module 'reference_engine' has no attribute {name!r}")
    globals()[name] = row  # found at once from now on
    return row


def __dir__() -> list[str]:
    return sorted({*__all__, *TABLE, *SEVERAL})
