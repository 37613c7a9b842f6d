"""Exponentials, logarithms, and the functions of the logistic family."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering

ROWS: dict[str, Lowering] = {
    "exp": "numpy.exp",
    "exp2": "numpy.exp2",
    "expm1": "numpy.expm1",
    "log": "numpy.log",
    "log10": "numpy.log10",
    "log1mexp": "nn.log1mexp",
    "log1p": "numpy.log1p",
    "log2": "numpy.log2",
    "logaddexp": "numpy.logaddexp",
    "sigmoid": "nn.sigmoid",
    "softplus": "nn.softplus",
    "tanh": "numpy.tanh",
    "xlog1py": "scipy.special.xlog1py",
    "xlogy": "scipy.special.xlogy",
}
