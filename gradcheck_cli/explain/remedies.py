"""Remedies for exceptions of frameworks that have a known reason but do not say what to do."""

from __future__ import annotations

from collections.abc import Iterator

from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.base import COMPILER
from gradcheck_cli.engines.errors import SpecMistake


@dataclass(frozen=True, slots=True)
class Remedy:
    """The remedy for exceptions of the class `raised` or a subclass whose text contains `words`.
    `lacks`: what the machine lacks, if that is the cause and not the layer."""

    raised: str
    words: str
    remedy: str
    lacks: str = ""


_TRACERS = (
    "jax.grad raises the same error: while JAX differentiates, NumPy, `math` and `float()` "
    "cannot read the numbers of an array. Compute with jax.numpy, and check numbers before you "
    "call the layer"
)
_KEPT = (
    "the layer uses an array that it kept from an earlier call, in an attribute, a dictionary or a "
    "global variable. JAX was differentiating that call, so the array has no numbers outside of "
    "it: return the array, and pass it to the next call as an argument"
)
_NO_GRADIENT = (
    "TensorFlow has no gradient for this operation: write one with tf.custom_gradient, or use "
    "operations that have one"
)
REMEDIES = (
    Remedy("TracerArrayConversionError", "", _TRACERS),
    Remedy(
        "RuntimeError",
        "Can't call numpy() on Tensor that requires grad",
        "what computes with NumPy has no gradient in PyTorch: use operations of torch, or check it "
        "with the engine `numpy`, which takes a `forward` and its `backward`",
    ),
    Remedy(
        "TracerBoolConversionError",
        "",
        "under jax.jit a branch cannot depend on a number: use jax.numpy.where or jax.lax.cond",
    ),
    Remedy("ConcretizationTypeError", "", _TRACERS),
    Remedy("UnexpectedTracerError", "", _KEPT),
    Remedy(
        "TypeError",
        "__init__() missing",
        "`args` and `kwargs` of an implementation are for the constructor of its class, as are "
        "--arg and --kwarg of `gradcheck layer`",
    ),
    Remedy(
        "ImportError",
        "attempted relative import with no known parent package",
        "a file that uses relative imports is part of a package: name its module instead "
        "(package.module:layer), from the folder that contains the package",
    ),
    Remedy("LookupError", "gradient registry has no entry", _NO_GRADIENT),
    Remedy("LookupError", "No gradient defined for operation", _NO_GRADIENT),
    Remedy(
        "RuntimeError",
        "InvalidCxxCompiler",
        COMPILER.install,
        "its torch.compile needs a C++ compiler, but there is none",
    ),
    Remedy(
        "RuntimeError",
        "Permission denied: ''",  # the name of the compiler
        f"unset CXX. Where there is no compiler: {COMPILER.install}",
        "its torch.compile needs a C++ compiler, but $CXX is empty",
    ),
    Remedy(
        "ValueError",
        "not supported as a gradient source",
        "a gradient is a dense tensor: return tf.sparse.to_dense(...) from the backward",
    ),
)


def remedy_of(error: BaseException) -> str:
    """What to do instead, in a sentence; empty if unknown."""
    return next((one.remedy for one in _matching_remedies(error)), "")


def with_remedy(detail: str, error: BaseException) -> str:
    """The details of the exception, and what to do instead if it is known."""
    return f"{detail}\n{remedy_of(error)}".strip()


def lacking(error: BaseException) -> SpecMistake | None:
    """The error as a SpecMistake about the machine, with the line that installs what is missing."""
    found = (SpecMistake(one.lacks, one.remedy) for one in _matching_remedies(error) if one.lacks)
    return next(found, None)


def _matching_remedies(error: BaseException) -> Iterator[Remedy]:
    classes = {one.__name__ for one in type(error).__mro__}
    return (r for r in REMEDIES if r.raised in classes and r.words in str(error))
