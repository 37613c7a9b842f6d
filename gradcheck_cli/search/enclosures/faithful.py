"""Which operations of an engine round as their restatement says, row by row.

Proofs hold only for programs of these operations. Each is one correctly rounded operation, a
library function, or a kernel that computes the operations of its restatement, in their order; sums
may be in any order. The derivatives of PyTorch's `prod` and `cumprod` choose between formulas
depending on zeros in their argument. The formula without zeros is known; a box that may contain a
zero has its pole. `python -m tests.fuzz.enclosures` compares results of engines with the bounds of
the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.program import CONSTANT, INPUT, Node, Program
from gradcheck_cli.search.enclosures.enclosed import Rounding

_TORCH = """
_linalg_det _linalg_slogdet _linalg_solve_ex _log_softmax _log_softmax_backward_data _safe_softmax
_softmax _softmax_backward_data _to_copy _unsafe_view abs acos acosh add addmm alias all amax amin
any arange arctan asin asinh atan atan2 atanh binary_cross_entropy binary_cross_entropy_backward
binary_cross_entropy_with_logits bitwise_and bitwise_not bitwise_or bmm cat clamp clamp_max
clamp_min clone constant_pad_nd cos cosh cumprod_backward cumsum detach diag_embed diagonal digamma
div dot elu elu_backward eq erf erfc erfinv exp exp2 expand expm1 fill flip full full_like gather ge
gelu gelu_backward gt hardtanh hardtanh_backward huber_loss huber_loss_backward hypot i0 index
index_put index_select isnan kthvalue le leaky_relu leaky_relu_backward lgamma lift_fresh
linalg_inv_ex linalg_lu_solve linalg_vector_norm log log10 log1p log2 log_sigmoid_backward
log_sigmoid_forward logaddexp logical_and logical_not logical_or logit logit_backward logsumexp lt
masked_fill max maximum mean min minimum mish mm movedim mse_loss mse_loss_backward mul mv
native_layer_norm native_layer_norm_backward ne neg new_full new_zeros nll_loss_backward
nll_loss_forward norm ones ones_like permute polygamma pow prod_backward reciprocal relu repeat
reshape roll rsqrt rsub scalar_tensor scatter scatter_add select select_backward select_scatter sgn
sigmoid sigmoid_backward sign silu silu_backward sin sinc sinh slice slice_backward softplus
softplus_backward sort special_entr special_erfcx special_i0e special_i1 special_i1e
special_log_ndtr special_ndtri special_xlog1py split split_with_sizes sqrt squeeze stack std sub sum
t tan tanh tanh_backward threshold_backward to topk trace transpose tril triu unbind unsqueeze var
view where xlogy zeros zeros_like
"""
_JAX = """
abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e broadcast_in_dim
cbrt clamp concatenate conv_general_dilated convert_element_type copy copy_p cos cosh cumprod
cumsum custom_linear_solve digamma div div.alone dot_general eq erf erf_inv erfc exp exp2
expand_dims expm1 gather ge gt integer_pow is_finite le lgamma log log1p logistic lt max min mul
ne neg not or pad polygamma pow reduce_max reduce_min reduce_sum reshape rev rsqrt scatter-add
select_n sign sin sinh slice sort split sqrt square squeeze stack stop_gradient sub tan tanh top_k
transpose unstack
"""
_TENSORFLOW = """
Abs Acos Acosh Add AddN AddV2 Asin Asinh Atan Atan2 Atanh BatchMatMulV2 BesselI0 BesselI0e BesselI1
BesselI1e BiasAdd BiasAddGrad BroadcastTo Cast ClipByValue ConcatV2 Conv2D Conv2DBackpropFilter
Conv2DBackpropInput Cos Cosh Cumprod Cumsum Digamma DivNoNan DynamicStitch Einsum Elu EluGrad
EnsureShape Equal Erf Erfc Erfinv Exp ExpandDims Expm1 Fill GatherNd GatherV2 Greater GreaterEqual
Identity Inv InvGrad IsFinite LeakyRelu LeakyReluGrad Less LessEqual Lgamma Log Log1p
LogMatrixDeterminant LogSoftmax LogicalAnd LogicalNot LogicalOr MatMul MatrixBandPart
MatrixDeterminant MatrixDiagPartV3 MatrixDiagV3 MatrixInverse MatrixSolve Max Maximum Mean Min
Minimum Mul MulNoNan Ndtri Neg NotEqual Pack Pad PadV2 Polygamma Pow Prod RealDiv Reciprocal
ReciprocalGrad Relu Relu6 Relu6Grad ReluGrad Reshape ReverseV2 Roll Rsqrt RsqrtGrad ScatterNd Select
SelectV2 Selu SeluGrad Sigmoid SigmoidGrad Sign Sin Sinh Slice Softmax SoftmaxCrossEntropyWithLogits
Softplus Softsign SoftsignGrad SparseSoftmaxCrossEntropyWithLogits Split SplitV Sqrt SqrtGrad Square
SquaredDifference Squeeze StopGradient StridedSlice StridedSliceGrad Sub Sum Tan Tanh TanhGrad
TensorScatterAdd Tile Transpose Unpack UnsortedSegmentSum Xdivy Xlog1py Xlogy ZerosLike
"""
_FAITHFUL = {
    "torch": frozenset(f"aten.{name}" for name in _TORCH.split()),
    "jax": frozenset(_JAX.split()),
    "tensorflow": frozenset(_TENSORFLOW.split()),
}
_KERNELS = frozenset().union(*_FAITHFUL.values())
_COPIES = frozenset(f"aten.{name}" for name in ["_to_copy", "clone", "to"])
ADDS_IN_ANY_ORDER = "AddN"
"""A kernel that is restated as sums of two, in one order."""
MULTIPLIES = {"integer_pow": None, "aten.pow.Tensor_Scalar": (2, 3)}
"""Kernels that are restated as powers, and multiply, for which exponents (None: all). PyTorch:
`pow_tensor_scalar_optimized_kernel` in aten/src/ATen/native/cpu/PowKernel.cpp."""
_ROWS_THEMSELVES = "reference"
"""The engine whose operations are the rows of the table."""
_OF_COFACTORS = frozenset(("det", "inv", "solve", "slogdet_sign", "slogdet_logabs", "logdet"))
"""Rows that this engine computes in other ways than by one elimination."""

BEYOND_THRESHOLD = dict.fromkeys(("aten.softplus", "aten.softplus_backward"), 2.0 ** (-28))
"""Relative. Kernels that choose (`where`) something simpler beyond a threshold, and how far that is
from what they are named after. PyTorch's softplus is linear beyond 20: exp(-20) is 2^-28.9."""

ULPS = {
    **dict.fromkeys(("aten.exp", "aten.log", "aten.log1p", "aten.log2"), (1.0, 1.0)),
    **dict.fromkeys(("aten.asin", "aten.acos", "aten.atan"), (1.0, 1.0)),
    **dict.fromkeys(("aten.silu", "aten.logsumexp"), (1.0, 1.0)),
    **dict.fromkeys(("aten.softplus_backward", "aten.log_sigmoid_backward"), (1.0, 1.0)),
    **dict.fromkeys(("aten.sin", "aten.cos"), (4.0, 1.0)),
    **dict.fromkeys(("aten.expm1", "aten.tan"), (1.5, 1.0)),
    "aten.log10": (2.1, 1.7),
    "aten.pow": (2.0, 2.0),
    **dict.fromkeys(("aten.sigmoid", "aten.silu_backward", "aten.softplus"), (2.1, 2.1)),
    "aten.log_sigmoid_forward": (2.6, 2.6),
    **dict.fromkeys(("aten.tanh", "aten.mish"), (2.3, 2.3)),
}
"""ulps. Within how many the functions of a library are in a kernel, in float32 and float64; others
are within `LIBRARY_ULPS`. PyTorch takes SLEEF's, with a bound of 1 in their names (u10), of 3.5 for
sin and cos of float32 (aten/src/ATen/cpu/vec/vec512/vec512_float.h); or those of MKL in its mode of
high accuracy, below 1 (ATen/cpu/vml.h, VML_HA); or those of the C library where it takes numbers
one by one: of glibc, the largest known errors are below 1, but for tanh (2.19 and 2.22), tan
(1.48) and log10 (2.07 and 1.62) (P. Zimmermann, Accuracy of Mathematical Functions, 2022). expm1 is
off by 1.000 at -16.6, so that it counts as more. x^-2 and x^-0.5 are quotients, of two roundings
and a root. A sigmoid is 1 / (1 + exp(-x)), softplus is log1p(exp(x)): two functions, or one and two
roundings, move the result by a part of 2^-22 and what squares of that leave; log_sigmoid is
min(x, 0) - log1p(exp(-|x|)), with one rounding more. `python -m tests.fuzz.library` measures
them: at all numbers of float32, exp, logarithms, atan, asin and acos are off by 0.98 at most."""

LOOSE_ULPS = {
    "exp": (0.75, 3.5, 1.75),
    "log": (0.75, 1.5, 0.75),
    "log1p": (0.75, 2.5, 2.0),
    "tanh": (0.75, 3.0, 4.0),
    "logistic": (1.75, 1.75, 2.0),
    "atan": (0.75, 1.0, 0.75),
    "Exp": (0.75, 1.25, 1.75),
    "Log": (0.75, 2.25, 1.75),
    "Log1p": (0.75, 3.0, 3.0),
    "Tanh": (0.75, 3.25, 4.0),
    "Sigmoid": (1.75, 5.5, 2.5),
    "Atan": (0.75, 3.25, 4.0),
    **dict.fromkeys(("sin", "cos", "erf", "Sin", "Cos", "Erf"), (0.75, 4.0, 4.0)),
    "pow": (1.0, 1.0, 1.0),
    "Pow": (0.75, 2.25, 1.5),
    "Reciprocal": (0.75, 2.25, 0.75),
    "Rsqrt": (0.75, 2.0, 1.0),
}
"""The same of JAX and TensorFlow in half precision, float32 and float64: ulps of 2 u of the number.
Nobody documents these functions. They were measured: at all numbers of float16 and bfloat16, at
every 31st of float32 and all where their errors are largest, and at ten million drawn numbers of
float64. They count as a fifth more at least, since vector units of other kinds may fuse a product
with a sum (`python -m tests.fuzz.library --engine jax`)."""

_ERFC = (
    *((-np.inf, 0.25, 1.25), (-np.inf, 0.5, 2.0), (-np.inf, 0.75, 3.25), (-np.inf, 1.0, 8.25)),
    (1.0, 2.0, 4.75),
)
PIECES: Mapping[str, tuple[tuple[float, float, float], ...]] = {
    "sin": ((-256.0, 256.0, 0.75),),
    "cos": ((-256.0, 256.0, 0.75),),
    "exp": ((-80.0, 80.0, 1.0),),
    "log": ((0.0, 0.5, 1.0), (2.0, np.inf, 1.0)),
    "log1p": ((-0.125, 0.125, 0.75), (-0.28, 0.3, 0.8)),
    "tanh": ((0.5, 2.0, 2.25), (-2.0, -0.5, 2.25)),
    "logistic": ((-8.0, np.inf, 1.25),),
    "erfc": _ERFC,
    "Sin": ((-2.0, 2.0, 1.25), (-256.0, 256.0, 2.0)),
    "Cos": ((-2.0, 2.0, 1.25), (-256.0, 256.0, 2.0)),
    "Log": ((0.0, 0.5, 1.5), (2.0, np.inf, 1.5)),
    "Tanh": ((-1.0, 1.0, 2.0),),
    "Sigmoid": ((0.0, np.inf, 2.75),),
    "Erfc": _ERFC,
    "lgamma": ((2.0**-6, 1024.0, 30.0),),
    "digamma": ((2.0**-6, 1024.0, 14.0),),
    "Lgamma": ((2.0**-6, 1024.0, 2.5), (0.25, 8.0, 1.3)),
    "Digamma": ((2.0**-6, 1024.0, 12.0),),
}
"""Arguments of float32 from the first number to the second, for which they were measured to be off
by less, and within how many ulps they count as then. Functions of gamma, for the first interval in
float64 as well, are off by so many ulps of 1 or of their larger numbers."""
_OF_GAMMA = frozenset(("lgamma", "digamma", "Lgamma", "Digamma"))

STEEPER_ULPS = {"Pow": 0.2}
"""ulps of float64 by which a power is worse for each 1 of its exponent's size, in addition to
LOOSE_ULPS, up to a size of 256: TensorFlow's is off by 2.3 at 10, 15 at 100 and 35 at 10^3 to
10^6."""

_DIVIDES = ("RealDiv", "div.alone", "Atan2", "atan2")
"""Divisions that are rounded once. XLA takes the reciprocal of a divisor that is a constant, or is
repeated, as a single number is for an array, if both are compiled together."""

LOOSE = frozenset(("jax", "tensorflow"))
"""Engines that take and give 0 for the subnormal numbers of float32. In half precision they compute
a function of a library by several roundings to it, or to more digits."""

AGAIN = frozenset(("jax",))
"""Engines that compile several operations as one, as those of a function of `jax.nn` are: a number
may be computed anew for each of its uses."""

_BY_OTHERS = {"torch": frozenset(("prod", "cumprod"))}
"""Rows with a derivative that the engine chooses by all numbers of an array: one that is 0 changes
how those beside it are computed."""


_BY_DTYPE = {"jax": frozenset(("log_ndtr", "erfcx", "expi", "expn", "fresnel_sin", "fresnel_cos"))}
"""Rows for which an engine has another program in each dtype: it chooses between approximations at
other thresholds. Those of float32 are recorded in float32; half precision has none."""


def recorded_in(formula: Program, engine: str, dtype: str) -> str:
    """The dtype in which the program of an engine is recorded that is searched in this dtype."""
    rows = _BY_DTYPE.get(engine, frozenset())
    differs = any(node.op in rows for node in formula.nodes)
    return dtype if differs and dtype == "float32" else "float64"


def of_one_dtype(formula: Program, engine: str, dtype: str) -> str:
    """The first operation of a formula whose recorded program is not the one in this dtype; empty
    if there is none."""
    if dtype in ("float64", recorded_in(formula, engine, dtype)):
        return ""
    rows = _BY_DTYPE.get(engine, frozenset())
    found = (node.op for node in formula.nodes if node.op in rows)
    return next(
        (f"`{op}` is recorded in float64, and is another program in {dtype}" for op in found), ""
    )


def depends_on_batch(program: Program, engine: str) -> bool:
    """Whether the results of an engine at a point depend on the other points of a batch."""
    return any(node.op in _BY_OTHERS.get(engine, ()) for node in program.nodes)


def unfaithful(program: Program, engine: str) -> str:
    """The first operation of a gradient program for which no proof holds; empty if there is
    none."""
    if engine == _ROWS_THEMSELVES:
        others = (node.op for node in program.nodes if node.op in _OF_COFACTORS)
        return next((f"how `{op}` rounds is not known" for op in others), "")
    known = _FAITHFUL.get(engine)
    if known is None:
        return f"how {engine} rounds is not known"
    divided = {
        (kernel_of(node), node.args[1]) for node in program.nodes if node.op == "divide"
    }  # the factors of products, in the derivatives
    for node in program.nodes:
        if node.op in (INPUT, CONSTANT):
            continue
        kernel = kernel_of(node)
        product = node.op in _BY_OTHERS.get(engine, ()) and (
            f"{kernel}_backward",
            node.args[0],
        )
        if kernel not in known and product not in divided:
            return f"how `{node.text}` rounds is not known"
    return ""


def identity(node: Node) -> str | None:
    """What determines the digits of a node besides its row and arguments: its kernel. None for a
    copy, whose layout the program does not show."""
    kernel = kernel_of(node)
    if kernel in _COPIES and node.op == "reshape":
        return None
    return node.text if kernel in _KERNELS else ""


def rounding_of(node: Node, rounding: Rounding, moves: bool) -> Rounding:
    """How the kernel of a node, whose last argument `moves`, rounds on an engine that rounds so."""
    kernel, unit = kernel_of(node), rounding.unit
    if not rounding.loose:
        return rounding.with_library_ulps(ULPS.get(kernel))
    if kernel in _DIVIDES and (moves or not rounding.again):
        rounding = replace(rounding, inverts=False)
    if kernel in LOOSE_ULPS:
        ulps = LOOSE_ULPS[kernel][(unit <= 2.0**-24) + (unit < 2.0**-24)]
        steeper = 2 * unit * STEEPER_ULPS.get(kernel, 0.0) if unit < 2.0**-24 else 0.0
        rounding = replace(rounding, library=2 * unit * ulps, is_measured=True, steeper=steeper)
    known = PIECES.get(kernel, ()) if unit == 2.0**-24 else ()
    if unit < 2.0**-24 and kernel in _OF_GAMMA:
        known = PIECES[kernel][:1]
    if known:
        pieces = tuple((low, high, 2 * unit * ulps) for low, high, ulps in known)
        rounding = replace(rounding, pieces=pieces)
    return rounding


def kernel_of(node: Node) -> str:
    """The kernel that a node of a gradient program restates, without its overload."""
    return ".".join(node.text.split(".")[:2]).rstrip("_")
