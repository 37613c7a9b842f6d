"""What users hold: an array with `requires_grad`, `.grad` and `.backward()`."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_engine.floats import as_dtype
from reference_engine.tape import Leaf, Node, check_cotangent, pull_back
from reference_engine.traced import CONSTANT_LEVEL, USER_LEVEL, Traced, Value, float_value, to_array


class Tensor(Node):
    """An n-dimensional array on the tape, made by `tensor` or by an operation on tensors.

    grad    of a leaf: None until a backward pass reaches it, then the sum over all backward passes
            since it was last set to None, as a tensor of the same shape and dtype
    """

    __slots__ = ()

    @property
    def grad(self) -> Any:
        return getattr(self.record, "grad", None)

    @grad.setter
    def grad(self, x_bar: Any) -> None:
        if isinstance(self.record, Leaf):
            self.record.grad = x_bar
        elif x_bar is not None:
            raise TypeError("only a leaf with requires_grad=True has a gradient")

    def __repr__(self) -> str:
        wants = ", requires_grad=True" if self.requires_grad else ""
        body = np.array2string(to_array(self), separator=", ", prefix="tensor(")
        return f"tensor({body}, dtype={self.dtype}{wants})"

    @property
    def requires_grad(self) -> bool:
        return self.level > CONSTANT_LEVEL

    @property
    def is_leaf(self) -> bool:
        """Made by the user rather than by an operation."""
        return self.op is None

    def detach(self) -> Tensor:
        """The tensor's numbers, cut from the graph: no gradient passes."""
        return Tensor(CONSTANT_LEVEL, to_array(self))

    def backward(
        self,
        cotangent: Value = None,
        *,
        create_graph: bool = False,
        retain_graph: bool | None = None,
    ) -> None:
        """Add d<cotangent, self>/dx to the `.grad` of every leaf x that requires one.

        `cotangent` has the shape of self; a scalar needs none. With create_graph the pass is
        recorded, so that the gradients can be differentiated again. The graph is freed unless
        retain_graph (by default: create_graph). Raises ShapeError for a cotangent that does not
        fit, GraphFreed where the graph is gone, TypeError if self does not require a gradient.
        """
        if not self.requires_grad:
            raise TypeError("backward needs a tensor that depends on one with requires_grad=True")
        keep = create_graph if retain_graph is None else retain_graph
        with np.errstate(all="ignore"):
            y_bar = check_cotangent(cotangent, self, "backward")
            if isinstance(y_bar, Tensor) and not create_graph:
                y_bar = y_bar.value
            reached = pull_back([(self, y_bar)], create_graph=create_graph, free=not keep)
            for leaf, x_bar in reached.items():
                assert isinstance(leaf, Leaf)  # without targets, nothing else is reached
                if not isinstance(x_bar, Traced):
                    x_bar = Tensor(CONSTANT_LEVEL, np.asarray(x_bar))
                before = getattr(leaf, "grad", None)
                leaf.grad = x_bar if before is None else before + x_bar


def tensor(data: Any, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of `data`: numbers, nested lists, an array or a tensor without gradient.

    `dtype` is a NumPy dtype or a name, "bfloat16" included; by default NumPy's choice for the data.
    Raises TypeError if a gradient is required of integers or booleans, and for data that is itself
    being differentiated (detach it, or use it as it is).
    """
    if isinstance(data, Traced):
        if data.level > CONSTANT_LEVEL:
            raise TypeError(
                "a value that is being differentiated cannot become the data of a new tensor; "
                "detach it first, or use it as it is"
            )
        data = data.value
    array = np.array(data, dtype=None if dtype is None else as_dtype(dtype))
    if requires_grad:
        float_value(array, "the tensor")
    return Tensor(USER_LEVEL if requires_grad else CONSTANT_LEVEL, array)
