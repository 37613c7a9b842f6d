"""A program in ball arithmetic, and how much work that is."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.program import CONSTANT, INPUT, Program
from gradcheck_cli.truth.plain import constant, inlined, moving


class BallProgram:
    """A program as a function of its differentiated inputs; everything else is exact."""

    def __init__(self, request: TruthRequest) -> None:
        from reference_engine.arithmetic.balls import exactly
        from reference_engine.op import TABLE

        self.program: Program = inlined(request.program)
        self.wrt = request.wrt
        self._moving = moving(self.program, request.wrt)
        self._rows = TABLE
        fmt = FORMATS[request.dtype]
        self._template: list[Any] = [None] * len(self.program.nodes)
        for index, node in enumerate(self.program.nodes):
            if node.op == CONSTANT:
                value = constant(node, fmt)
                self._template[index] = exactly(value) if node.kind == "float" else value
        for name, index in self.program.inputs.items():
            value = np.asarray(request.values[name])
            self._template[index] = exactly(value) if value.dtype.kind == "f" else value

    def __call__(self, *xs: Any) -> Any:
        from reference_engine.arithmetic.ball_choices import noting_ties
        from reference_engine.arithmetic.balls import exactly
        from reference_engine.traced import Traced

        slots = self._template.copy()
        for name, x in zip(self.wrt, xs, strict=True):
            slots[self.program.inputs[name]] = x
        for index, node in enumerate(self.program.nodes):
            if node.op in (CONSTANT, INPUT):
                continue
            args = [slots[i] for i in node.args]
            for k, wanted in enumerate(node.wants):
                if wanted == "float" and not isinstance(args[k], Traced):
                    whole = node.op == "power" and k == 1 and np.ndim(args[k]) == 0
                    # the rule for a whole exponent is shorter
                    args[k] = int(args[k]) if whole else exactly(args[k])
            # a tie between numbers that do not move (a mask of zeros and ones) is none
            with noting_ties() if index not in self._moving else nullcontext():
                slots[index] = self._rows[node.op](*args, **node.keywords)
        return slots[self.program.output]


def operations(program: Program) -> float:
    """Scalar operations of one evaluation; those of products of matrices are cheaper."""
    total = 0.0
    for node in program.nodes:
        if node.op in (CONSTANT, INPUT):
            continue
        sizes = [int(np.prod(program.nodes[i].shape)) for i in node.args]
        size = max([int(np.prod(node.shape)), *sizes])
        if node.op in CONTRACTIONS and len(sizes) > 1:
            # the longest loop: sqrt(n k * k m * n m) = n k m
            product = sizes[0] * sizes[1] * int(np.prod(node.shape))
            size = max(size, int(np.sqrt(product) * CHEAPER))
        total += size
    return total


CONTRACTIONS = frozenset(
    [
        "matmul",
        "dot",
        "tensordot",
        "einsum",
        "conv1d",
        "conv2d",
        "conv_transpose2d",
        "linear",
        "solve",
    ]
)
CHEAPER = 0.15  # a product and a sum of balls, beside the average of other operations
