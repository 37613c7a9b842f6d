"""Find symmetric or Hermitian matrices of which a layer reads one triangle, as Cholesky does.

Frameworks split the derivative between both triangles, each in its own way. All results are
derivatives of the same function of symmetric matrices, so the matrix is moved as one, as if the
spec declared `kind: symmetric`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gradcheck_cli.checks.subjects import Subjects
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.domain.thresholds import Step
from gradcheck_cli.engines.layer.subject import Call, Subject, output_size
from gradcheck_cli.engines.tracebacks import where_it_runs
from gradcheck_cli.specfile.kinds import HERMITIAN, KINDS, Kind, adjoint

APART: Step = 2.0**-6
"""How far the entries of a triangle are moved, relative to the largest entry: far beyond rounding,
and so little that most definite matrices stay definite."""


def as_it_moves(subjects: Subjects, bind: Callable[[], Subject]) -> Subject:
    """Bind the subject, with symmetric matrices kept symmetric if it reads one triangle of them."""
    subject = bind()
    kinds = {leaf.name: _kind(leaf) for leaf in _one_triangle_read(subject, subjects)}
    if not kinds:
        return subject
    subject.close()
    subjects.keep(kinds)
    return bind()


def _kind(leaf: Leaf) -> Kind:
    return HERMITIAN if leaf.is_complex else KINDS["symmetric"]


def _one_triangle_read(subject: Subject, subjects: Subjects) -> Iterator[Leaf]:
    """The symmetric matrices with one triangle that is read, and a derivative in the other."""
    for leaf in subject.leaves:
        own = leaf.differentiable and leaf.role != "captured" and leaf.name not in subjects.kinds
        if own and is_symmetric(leaf):
            shape = leaf.shape[:-1] if leaf.is_complex else leaf.shape
            below = np.broadcast_to(np.tri(shape[-1], k=-1, dtype=bool), shape)
            above = np.swapaxes(below, -1, -2)
            for read, unread in ((below, above), (above, below)):
                if _reads(subject, leaf, read, unread) and _hands_to(subject, leaf, read, unread):
                    yield leaf
                    break


def is_symmetric(leaf: Leaf) -> bool:
    """Whether the leaf is a symmetric matrix, a Hermitian one of pairs, or a stack of them."""
    if not leaf.is_complex:
        return are_symmetric(leaf.kept)
    value = leaf.kept
    square = value.ndim >= 3 and value.shape[-3] == value.shape[-2] > 1
    return bool(square and value.size and np.array_equal(value, adjoint(value)))


def are_symmetric(value: Array) -> bool:
    """Whether a real array is a symmetric matrix or a stack of them."""
    square = value.ndim >= 2 and value.shape[-2] == value.shape[-1] > 1
    floats = square and value.dtype.kind == "f" and value.size > 0
    if not floats or not np.array_equal(value[..., 0, :], value[..., :, 0]):
        return False  # one row and column rule out most matrices
    return bool(np.array_equal(value, np.swapaxes(value, -1, -2)))


def _moves(subject: Subject, leaf: Leaf, where: Array) -> Array:
    """Random moves of the entries in `where`."""
    size = APART * (float(np.max(np.abs(leaf.value))) or 1.0)
    moves = size * np.random.default_rng(0).uniform(-1.0, 1.0, leaf.shape)
    return FORMATS[subject.dtype].round(
        np.where(where[..., None] if leaf.is_complex else where, moves, 0.0)
    )


def _reads(subject: Subject, leaf: Leaf, read: Array, unread: Array) -> bool:
    """Whether the output depends on entries of triangle `read` and on none of `unread`."""

    def moved(where: Array) -> Array | None:
        there = {leaf.name: leaf.value + _moves(subject, leaf, where)}
        return where_it_runs(lambda: subject.value(there), None)

    here = where_it_runs(lambda: subject.value({}), None)
    if here is None or not np.all(np.isfinite(here)):  # nan hides changes
        return False
    there, elsewhere = moved(unread), moved(read)
    same = there is not None and np.array_equal(here, there)
    return same and (elsewhere is None or not np.array_equal(here, elsewhere))


def _hands_to(subject: Subject, leaf: Leaf, read: Array, unread: Array) -> bool:
    """Whether entries that are not read have a derivative. A gradient that is nonzero in that
    triangle alone is transposed, not a convention."""
    size = output_size(subject)
    row = FORMATS[subject.dtype].round(np.random.default_rng(1).standard_normal(size))
    ran = where_it_runs(lambda: subject.run(Call(cotangents=row[None], wrt=(leaf.name,))), None)
    gradient = None if ran is None else ran.gradients.get(leaf.name)
    if gradient is not None:
        shaped = gradient.reshape(leaf.shape)
        if not np.any(shaped[read]):
            return False
        if np.any(shaped[unread]):
            return True
    moves = _moves(subject, leaf, unread)
    pushed = where_it_runs(lambda: subject.jvp({leaf.name: moves}), None)
    return pushed is not None and bool(np.any(pushed))
