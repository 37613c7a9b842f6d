"""ATen's operations that need no kernel, and operations that equal one row of the op table."""

from __future__ import annotations

DATA_MOVEMENT = frozenset(
    [
        *("view", "_unsafe_view", "reshape", "expand", "permute", "t", "transpose", "unsqueeze"),
        *("squeeze", "select", "slice", "clone", "detach", "alias", "lift_fresh", "contiguous"),
        *("cat", "stack", "flip", "roll", "index", "index_select", "gather", "diagonal"),
        *("diag_embed", "tril", "triu", "unbind", "split", "split_with_sizes", "repeat"),
        *("select_backward", "slice_backward", "diagonal_backward", "view_copy", "unfold"),
        *("_reshape_alias", "narrow", "movedim", "take", "copy", "copy_", "unsafe_split"),
        *("masked_select", "masked_scatter", "index_copy", "select_scatter"),
        *("slice_scatter", "diagonal_scatter", "as_strided_scatter", "as_strided_copy"),
        *("reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d"),
        *("replication_pad2d", "replication_pad3d", "im2col", "pixel_shuffle"),
        *("pixel_unshuffle", "channel_shuffle", "embedding", "rot90", "block_diag"),
        *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "lift"),
    ]
)
"""Operations that move numbers, and fill the remaining places with zeros."""

EXACT_SELECTIONS = frozenset(
    ["neg", "abs", "amax", "amin", "max", "min", "maximum", "minimum", "where"]
)
"""Other operations that do not round: they do more than move numbers."""

ZEROS = frozenset(
    [
        *("zeros", "zeros_like", "new_zeros", "scalar_tensor", "_efficientzerotensor", "ones"),
        *("ones_like", "full", "full_like", "_new_zeros_with_same_feature_meta", "eye", "arange"),
        *("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"),
    ]
)
"""Operations that make constant arrays. No computation produced the zeros in them."""

RANDOM = frozenset(
    [
        *(
            "rand",
            "randn",
            "randint",
            "randperm",
            "rand_like",
            "randn_like",
            "randint_like",
            "bernoulli",
            "bernoulli_",
            "uniform",
        ),
        *("uniform_", "normal", "normal_", "normal_functional", "exponential", "exponential_"),
        *("geometric", "geometric_", "cauchy", "cauchy_", "log_normal", "log_normal_", "random"),
        *("random_", "multinomial", "poisson", "binomial"),
    ]
)
"""Operations that draw random numbers, which are constants of the run."""

CHOICES = frozenset(
    [
        *("isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit", "any", "all", "equal"),
        *("argmax", "argmin", "argsort", "nonzero", "searchsorted", "bucketize", "count_nonzero"),
        *("is_nonzero", "_local_scalar_dense", "item", "isclose", "allclose"),
    ]
)
"""Operations that return indices or masks, which are constants of the run."""

SAME_NAME = (
    *("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "reciprocal"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh"),
    *("atanh", "atan2", "sigmoid", "erf", "erfc", "erfinv", "lgamma", "digamma", "xlogy"),
    *("logaddexp", "maximum", "minimum", "abs", "sign", "floor", "ceil", "hypot"),
    *("relu", "square", "sinc", "i0", "logical_and", "logical_or", "logical_not", "matmul"),
    *("where", "remainder", "trace", "silu", "mish"),
)
_SPECIAL = "ndtr log_ndtr erfcx i0e i1 i1e ndtri xlog1py entr gammainc gammaincc zeta"
RENAMED = {
    **{f"special_{name}": name for name in _SPECIAL.split()},
    **{"igamma": "gammainc", "igammac": "gammaincc"},
    "neg": "negative",
    "pow": "power",
    "sgn": "sign",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "fmax": "maximum",
    "fmin": "minimum",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_not": "logical_not",
    "mm": "matmul",
    "bmm": "matmul",
    "mv": "matmul",
    "linalg_matrix_exp": "expm",
}

ROWS: dict[str, str] = {
    **{name: name for name in (*SAME_NAME, "add", "sum", "mean", "prod", "cumsum", "softplus")},
    **RENAMED,
    **{"mul": "multiply", "sub": "subtract", "div": "divide", "linalg_vector_norm": "norm"},
    "round": "round",
}
"""Kernels that equal a row of the op table and take their arrays in the same order."""

PERMUTED_ARGS: dict[str, tuple[str, tuple[int, ...]]] = {
    "rsub": ("subtract", (1, 0)),
    "masked_fill": ("where", (1, 2, 0)),
}
"""Kernels that equal a row with another order of arguments: the row, and the kernel's argument for
each of the row's."""
