"""The certified truth about a layer from its forward, lifted into a program. The program is
compared with the layer before it is trusted."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from gradcheck_cli.checks.bound_layer import BoundLayer, moving_size
from gradcheck_cli.checks.certified.islands import with_islands
from gradcheck_cli.checks.certified.program_truth import ProgramTruth, is_certified
from gradcheck_cli.checks.certified.readable import with_literals
from gradcheck_cli.domain.draws import generator
from gradcheck_cli.domain.dtypes import FORMATS, Array, Values
from gradcheck_cli.domain.evaluation import SECOND
from gradcheck_cli.domain.layer import MANY, Leaf, rounded, word_of
from gradcheck_cli.domain.program import CONSTANT, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.scale import scale_of
from gradcheck_cli.domain.thresholds import (
    BUBBLE,
    FEW_ULPS,
    LIFTED_NOISE,
    OPERATIONS,
    SAME_STEP,
    SHOWS,
    Step,
)
from gradcheck_cli.domain.truth import PointKind, Truth, TruthBlock
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.isolation import surroundings_number
from gradcheck_cli.engines.layer.lifting import Lifted, NotLifted
from gradcheck_cli.engines.layer.recording import TooLarge
from gradcheck_cli.engines.layer.subject import Subject
from gradcheck_cli.engines.tracebacks import raise_if_internal, where_it_runs
from gradcheck_cli.formula.shapes import COMPARISONS
from gradcheck_cli.truth.blocks import Differences
from gradcheck_cli.truth.certified.ball_program import exact_nodes
from gradcheck_cli.truth.certified.enclose import DOUBT
from gradcheck_cli.truth.certified.enclosed_products import EnclosedArray, require_few
from gradcheck_cli.truth.certified.ties import loses_rank
from gradcheck_cli.truth.layers.callables import projected, ulp_perturbed
from gradcheck_cli.truth.layers.safe_values import values_of
from gradcheck_cli.truth.layers.stairs import Stairs, searches
from gradcheck_cli.truth.numerics.noise import from_size
from gradcheck_cli.truth.plain import plain_function
from gradcheck_cli.truth.several_points import several_points

STIRS = 3  # points a few ulps away, at which every operation rounds differently
DRAWS = 2  # random directions; each gives a point on either side
CONTRADICTED = "differences of the layer contradict the derivative of the operations that ran"
# Relative moves, by the dtype that the layer computes in: a missing term stands out from 2^-50, or
# 2^-21, of rounding. Steps of a move this far are about the longest of a difference.
NEAR: Mapping[str, Step] = {"float64": 2.0**-20, "float32": 2.0**-8}
FAR: Mapping[str, Step] = {"float64": 2.0**-8, "float32": 2.0**-6}
BUBBLES = "its derivative holds on a stretch so short that every step of a difference leaves it"
KEPT = 1024  # the most numbers of a point that are kept for the next dtype


class LiftedTruth(ProgramTruth):
    """The truth about the forward of a layer as it ran.

    The layer must compute in the dtype of `highest`, float64 or float32. Raises NotLifted if the
    program does not compute the layer's values at points nearby, and the exceptions of
    `Subject.lift`.
    """

    origin = "from the trace"

    def __init__(self, layer: BoundLayer) -> None:
        subject = layer.highest
        self.radii, self.radii_of_second = {}, {}
        made = _of_this_check(layer)
        if made is None:
            near = _points_nearby(subject, layer.problem.seed)
            made = _program_of_last_check(layer, near)
        if made is None:
            again = any(mode in SECOND for mode in layer.problem.modes)
            found = with_islands(subject.lift(), again)
            self.radii, self.radii_of_second = found.radii, found.radii_of_second
            made = _Made(found.lifted, with_literals(found.lifted))
            _remember(layer, made, _compare(layer, made, near))
        self._made, self._lifted = made, made.lifted
        program = _in_range(made.stated.program, FORMATS[layer.problem.dtype].largest)
        super().__init__(layer, program, made.stated.constants)
        self._require_decided()
        self._bubbles = False  # every difference steps over the stretch where it holds
        self.searches = searches(self.program, [self.words[name] for name in self._moving])
        self.islands = ", ".join(
            dict.fromkeys(f"`{island.name}`" for island in made.lifted.islands)
        )
        if self.islands:
            self.origin = f"from the trace; {self.islands} by differences"

    def _require_decided(self) -> None:
        """Raise NotLifted if the rounding of two equal numbers decides a comparison, as in `v <=
        sqrt(eps)` where v is sqrt(eps), too. The layer means that they are equal, and exact
        arithmetic, in which the literal is not the root, may say that they are not."""
        nodes = self.program.nodes
        places = [place for place, node in enumerate(nodes) if node.op in COMPARISONS]
        if not places:
            return
        values = plain_function(self.program, "float64").nodes(self._values())
        equal = {place: _nearly_equal(*(values[i] for i in nodes[place].args)) for place in places}
        if not any(np.any(mask) for mask in equal.values()):
            return
        exact = exact_nodes(self.program, self._values(), self.layer.problem.dtype)
        for place, mask in equal.items():
            if exact is not None and np.any(mask & (exact[place] != values[place])):
                raise NotLifted("the rounding of two equal numbers decides a comparison")

    @property
    def doubt(self) -> str:
        """Why a finite difference of the layer that contradicts its derivative may be misled."""
        if self._bubbles:
            return BUBBLES
        values = plain_function(self.program, "float64").nodes(self._values())
        return DOUBT if loses_rank(self.program, values) else ""

    @property
    def has_islands(self) -> bool:
        """Whether operations without a row are replaced by the first terms of their series. The
        first two derivatives are those of the layer, with error bars of finite differences."""
        return bool(self._lifted.islands)

    @property
    def unreached(self) -> Sequence[str]:
        """Leaves that no node of the program reads."""
        program = self._lifted.program
        read = {index for node in program.nodes for index in node.args} | set(program.outputs)
        inputs = program.inputs
        return [name for name in self._moving if inputs.get(self.words[name]) not in read]

    @property
    def value(self) -> Array:
        """The flat value of the program at the leaves' own values, (m,)."""
        subject = self.layer.highest
        return _Nearby(subject, self._made).values([_own_values(subject)])[0]

    def is_sure(self, truth: Truth) -> bool:
        """Whether every entry is certified."""
        return is_certified(truth.blocks.values())

    def narrowed(self, truth: Truth, directions: Values | None) -> Truth:
        """The truth by differences of a small layer, replaced by enclosures of its program where
        they are narrow. `directions` are the directions of forward mode by leaf, (k, n); None if it
        has the whole Jacobian. Raises the exceptions of `EnclosedProducts`."""
        products = self.products()
        found = [products.pulled(row) for row in np.eye(truth.output.size)]
        blocks = dict(truth.blocks)
        for name in self._moving:
            rows = [row[self.words[name]] for row in found]
            enclosed = EnclosedArray(
                np.stack([row.value for row in rows]), np.stack([row.radius for row in rows])
            )
            blocks["reverse", name] = narrowed(truth.blocks["reverse", name], enclosed)
            if ("forward", name) in blocks:
                along = None if directions is None else directions[name]
                block = blocks["reverse", name]
                blocks["forward", name] = block if along is None else projected(block, along)
        return replace(truth, blocks=blocks, origin=self.origin)

    def agrees(
        self,
        truth: Truth,
        gradients: Values,
        found: Mapping[str, Differences],
        stairs: Mapping[tuple[str, int], Stairs] | None = None,
    ) -> bool:
        """Whether no finite difference contradicts the certified entries of reverse mode.

        Entries that a difference vouches for along directions are read from `gradients`. `stairs`
        are entries along which the layer has stairs, with differences of long steps. A derivative
        is rejected if it is certified on one stair of a search, if an island has the derivative of
        one stair, or if stairs are so fine that every step is longer, which shows as a
        contradicting difference. If the layer equals the program along the axis of an entry, its
        difference was misled by rounding, unless exact values of the program confirm the
        difference.
        """
        for name, taken in found.items():
            block = truth.blocks["reverse", name]
            value = np.where(taken.vouched, gradients[name], taken.value)
            apart = np.abs(value - block.value) > SHOWS * taken.error + block.error
            doubtful = (apart & np.isfinite(taken.error)) | (taken.kind != PointKind.SMOOTH)
            for column in range(value.shape[1]):
                steps = (stairs or {}).get((name, column))
                contradicted = steps is not None or np.any(apart[:, column])
                stepped = self.searches and bool(contradicted)
                if not np.any(block.certified[:, column] & (doubtful[:, column] | stepped)):
                    continue
                if (self.has_islands and steps is not None) or self.departs(name, column):
                    return False
                rows = apart[:, column] & block.certified[:, column]
                derivative = np.where(rows, block.value[:, column], value[:, column])
                if stepped:
                    derivative = block.value[:, column]
                part = self._bubble
                if stepped:
                    far = FAR[self.layer.highest.dtype]
                    part = far if steps is None else max(far, steps.part)
                if self._is_bubble(name, column, part, derivative, value[:, column]):
                    self._bubbles = not stepped
                    return False
        return True

    @property
    def _bubble(self) -> float:
        """The relative width within which the judged dtype has a few numbers, or float32 none. A
        rounding in the layer that is as fine as the dtype has derivative 1."""
        return max(BUBBLE, 2 * FEW_ULPS * FORMATS[self.layer.problem.dtype].unit_roundoff)

    def _is_bubble(
        self, name: str, column: int, part: float, derivative: Array, difference: Array
    ) -> bool:
        """Whether the `derivative` (m,) with respect to one entry holds on less than this relative
        `part` of it: a difference of exact values across that part equals the layer's difference,
        or is far nearer to it. A bisection has such stairs, each of them flat."""
        leaf, axis = self._axis(name, column)
        dtype = self.layer.highest.dtype
        ends = [{name: _perturbed_values(leaf, way * axis, dtype)} for way in (-part, part)]
        run = _Nearby(self.layer.highest, self._made)
        low, high = (run.exact_value(end, self.layer.problem.dtype) for end in ends)
        width = (ends[1][name] - ends[0][name]).flat[column]
        exact = (high - low) / width
        bar = from_size(high, 1) / width  # each end is rounded once
        return bool(np.any(np.abs(exact - difference) + bar < np.abs(exact - derivative) / 2))

    def departs(self, name: str, column: int) -> bool:
        """Whether the layer's values differ from its program along the axis of one entry."""
        leaf, axis = self._axis(name, column)
        dtype = self.layer.highest.dtype
        steps = [NEAR[dtype]] if self.has_islands else [NEAR[dtype], FAR[dtype]]
        near = [
            {name: _perturbed_values(leaf, way * step * axis, dtype)}
            for step in steps
            for way in (1, -1)
        ]
        try:
            _compare(self.layer, self._made, near)
        except NotLifted:
            return True
        return False

    def _axis(self, name: str, column: int) -> tuple[Leaf, Array]:
        """The leaf with this name, and an array of its shape that is 1 at one entry, else 0."""
        (leaf,) = (leaf for leaf in self.layer.highest.leaves if leaf.name == name)
        axis = np.zeros(leaf.shape)
        axis.flat[column] = 1.0
        return leaf, axis


def lifted_truth(layer: BoundLayer, notes: dict[str, None]) -> LiftedTruth | None:
    """The truth about the forward of a layer; None if it cannot be lifted, for example because it
    does not run while watched. `notes` collects the sentence that names operations without rows.
    Raises an exception of the layer if it does not occur in a second run, and TooManyNumbers."""
    if layer.highest.digits != layer.highest.dtype or layer.highest.dtype not in NEAR:
        return None  # another note says where the layer casts
    try:
        require_few(moving_size(layer.narrow))  # avoids lifting in vain
        return LiftedTruth(layer)
    except NotLifted as refusal:
        where = "" if refusal.place is None else f" (line {refusal.place.span.line})"
        notes[by_differences(layer, f"{refusal}{where}")] = None
    except (TooLarge, Unsupported):
        pass  # the user need not know
    except Exception as error:
        raise_if_internal(error)
        if where_it_runs(layer.highest.lift, None) is not None:
            raise
    return None


def by_differences(layer: BoundLayer, reason: str) -> str:
    """A sentence that says why finite differences replace a certified truth."""
    return f"{layer.name}: no certified truth ({reason}); finite differences decide"


def by_tangents(layer: BoundLayer, reason: str) -> str:
    """A sentence that says why float64 tangents of the program replace a certified truth."""
    return (
        f"{layer.name}: no certified truth ({reason}); the derivative of its operations in float64 "
        "decides"
    )


def _in_range(program: Program, largest: float) -> Program:
    """The program with its finite constants cut off at the largest number of the judged dtype. A
    constant that is beyond it in float64 was taken from there, as a mask with the smallest number
    of its own dtype, `torch.finfo(x.dtype).min`; no infinite one runs in the judged dtype."""
    beyond = {
        index: replace(node, value=math.copysign(largest, node.value))
        for index, node in enumerate(program.nodes)
        if node.op == CONSTANT and node.value and largest < abs(node.value) < math.inf
    }
    nodes = tuple(beyond.get(index, node) for index, node in enumerate(program.nodes))
    return replace(program, nodes=nodes) if beyond else program


@dataclass(frozen=True, slots=True)
class _Made:
    """A lifted program, and the same program with literals for constants."""

    lifted: Lifted
    stated: Lifted


@dataclass(frozen=True, slots=True)
class _Last:
    """The lifted program of a live layer's last check: its leaves, the surroundings that were open
    (`stay`), and the values at which both were equal up to `noise` (None: unknown)."""

    leaves: Hashable
    made: _Made
    stay: int
    here: Values
    noise: Array | None


_LAST: WeakKeyDictionary[Any, _Last] = WeakKeyDictionary()
"""In the next dtype and at other values, a layer usually executes the same operations. A program
that has the layer's values there, at the point and nearby, need not be recorded again."""


def _last_of(layer: BoundLayer) -> _Last | None:
    try:
        last = _LAST.get(layer.problem.implementation.live)
    except TypeError:  # not hashable, or does not support weak references
        return None
    return last if last is not None and last.leaves == _leaves_of(layer) else None


def _of_this_check(layer: BoundLayer) -> _Made | None:
    """The program of another dtype of the same check, if it has the layer's value here. For that
    dtype, the two were compared at points further away than this one."""
    last = _last_of(layer)
    if (
        last is None
        or last.noise is None
        or layer.uncast
        or not last.stay == surroundings_number() > 0
    ):
        return None
    subject, here = layer.highest, _own_values(layer.highest)
    for name, value in here.items():
        if not np.all(np.abs(value - last.here[name]) <= NEAR["float64"] / 4 * np.abs(value)):
            return None
    (mine,) = _Nearby(subject, last.made).values([here])
    (there,) = values_of(subject, [here], mine.size)
    same = (there == mine) | (np.isnan(there) & np.isnan(mine))
    return last.made if np.all(same | (np.abs(there - mine) <= last.noise)) else None


def _program_of_last_check(layer: BoundLayer, near: Sequence[Values]) -> _Made | None:
    """The program of the last check, if it computes the layer's function here, too."""
    last = _last_of(layer)
    if last is None:
        return None
    try:
        _remember(layer, last.made, _compare(layer, last.made, near, of_elsewhere=True))
    except NotLifted:
        return None
    return last.made


def _remember(layer: BoundLayer, made: _Made, noise: Array | None) -> None:
    live = layer.problem.implementation.live
    if live is None or made.lifted.islands:
        return
    if layer.uncast or moving_size(layer.highest) > KEPT:
        noise = None
    here = {} if noise is None else _own_values(layer.highest)
    with suppress(TypeError):
        _LAST[live] = _Last(_leaves_of(layer), made, surroundings_number(), here, noise)


def _own_values(subject: Subject) -> Values:
    return {leaf.name: leaf.value for leaf in subject.leaves if leaf.differentiable}


def _leaves_of(layer: BoundLayer) -> Hashable:
    return tuple(
        (leaf.name, leaf.role, leaf.shape, leaf.kept.dtype.kind, leaf.differentiable)
        for leaf in layer.highest.leaves
    )


def _compare(
    layer: BoundLayer, made: _Made, near: Sequence[Values], of_elsewhere: bool = False
) -> Array | None:
    """Compare the program with the layer at the point and at the points `near`, which lie on either
    side of it in turn. Return the difference that rounding explains at the point, or None if
    rounding hides everything.

    Raises NotLifted if the two differ nearby by more than their rounding. Their difference at the
    point itself counts as rounding up to the last digit of the largest output, because each step
    was compared there. If rounding leaves no digits to compare, the layer must execute the same
    program nearby. `of_elsewhere`: the program was recorded elsewhere, and its steps were not
    compared here.
    """
    subject, seed, lifted = layer.highest, layer.problem.seed, made.lifted
    rng = generator(seed, 43)
    program = _Nearby(subject, made)
    if isinstance(near, _OneByOne):
        mine, there, anew = _one_by_one(program, near, rng)
    else:
        points = [_own_values(subject), *near]
        mine, anew = program.values_and_randomly_rounded(points, near, rng)
        there = values_of(subject, points, mine[0].size)
    off = _difference(there, mine)
    if lifted.islands:  # a line has the same error on either side of the point
        moved = np.repeat(np.abs(off[1::2] - off[2::2]) / 2, 2, 0)
    else:
        moved = np.abs(off[1:] - off[0])
    size = np.max(np.abs(there), initial=0.0, where=np.isfinite(there))
    here_apart, in_digits = np.abs(off[0]), from_size(size, OPERATIONS, subject.dtype)
    coarser = FORMATS[subject.dtype].unit_roundoff / FORMATS["float64"].unit_roundoff
    own = coarser * np.fmax.reduce(np.abs(anew - mine[1:]), axis=0, initial=0.0)
    rounding = from_size(there[0], OPERATIONS, subject.dtype) + own
    known = not of_elsewhere or np.all(here_apart <= rounding)
    if not (known and np.all(moved <= LIFTED_NOISE * rounding)):
        rounding = rounding + _rounding_spread(program, off[0], seed)
    if of_elsewhere and not np.all(here_apart <= rounding):
        raise NotLifted("it computes a different function here")
    noise = rounding + np.fmin(here_apart, in_digits)
    if not np.all(noise <= SAME_STEP * np.sqrt(coarser) * size):
        alike = not (of_elsewhere or lifted.islands)
        if alike and all(_runs_alike(layer, lifted, point) for point in near):
            return None
        raise NotLifted("its values next to the point have lost half of their digits, or jump")
    if not np.all(moved <= LIFTED_NOISE * noise):
        raise NotLifted("the operations that ran at this point do not compute its values nearby")
    return np.asarray(rounding)


def _difference(there: Array, mine: Array) -> Array:
    """The layer's values minus the program's, 0 where both are equal or nan."""
    same = (there == mine) | (np.isnan(there) & np.isnan(mine))
    return np.where(same, 0.0, there - mine)


def _rounding_spread(program: _Nearby, off: Array, seed: int) -> Array:
    """How much further than `off` the two are apart when everything is rounded differently: the
    layer's own loss, if it exceeds the loss of its operations in the program."""
    found = np.zeros(off.shape)
    for turn in range(STIRS):
        point = ulp_perturbed(program.subject, seed + turn)
        (mine,) = program.values([point])
        (there,) = values_of(program.subject, [point], mine.size)
        found = np.maximum(found, np.abs(_difference(there, mine) - off))
    return found


def _runs_alike(layer: BoundLayer, lifted: Lifted, moved: Values) -> bool:
    """Whether the layer executes the same program with the same constants at another point."""
    with layer.at_values(layer.highest.dtype, moved) as there:
        if there is None:
            return False
        try:
            return there.lift().computes_as(lifted)
        except (NotLifted, TooLarge):
            return False


def _both_ways(subject: Subject, rng: np.random.Generator) -> list[Values]:
    """2 * DRAWS points nearby, in pairs on either side of the point. No two numbers move equally
    far, so ties break."""
    moved = {}
    for leaf in subject.leaves:
        if leaf.differentiable:
            parts = NEAR[subject.dtype] * _relative_steps(leaf, rng, (DRAWS, 1))
            parts = np.concatenate([parts, -parts], axis=1).reshape(2 * DRAWS, *leaf.shape)
            moved[leaf.name] = _perturbed_values(leaf, parts, subject.dtype)
    return [{n: points[place] for n, points in moved.items()} for place in range(2 * DRAWS)]


class _OneByOne(Sequence[Values]):
    """Large points, each created when it is used."""

    def __init__(self, makers: Sequence[Callable[[], Values]]) -> None:
        self._makers = makers

    def __len__(self) -> int:
        return len(self._makers)

    def __getitem__(self, place: Any) -> Any:
        return self._makers[place]()


def _points_nearby(subject: Subject, seed: int) -> Sequence[Values]:
    """The points of `_both_ways`; those of a large layer are created one by one."""
    if moving_size(subject) < MANY:
        return _both_ways(subject, generator(seed, 41))
    near = NEAR[subject.dtype]
    ways = [(turn, way) for turn in range(DRAWS) for way in (near, -near)]
    return _OneByOne([partial(_one_way, subject, seed, *one) for one in ways])


def _one_way(subject: Subject, seed: int, turn: int, way: float) -> Values:
    """A point nearby; `way` of the other sign gives the point on the other side."""
    rng = generator(seed, 41, turn)
    moving = [leaf for leaf in subject.leaves if leaf.differentiable]
    return {
        leaf.name: _perturbed_values(leaf, way * _relative_steps(leaf, rng), subject.dtype)
        for leaf in moving
    }


def _relative_steps(leaf: Leaf, rng: np.random.Generator, draws: tuple[int, ...] = ()) -> Array:
    """How far each number of a leaf moves, as a signed fraction of NEAR; several draws lie along
    leading axes."""
    drawn = rng.uniform(-1.0, 1.0, (*draws, *leaf.shape))
    return (drawn + np.copysign(1.0, drawn)) / 2  # at least half


def _one_by_one(
    program: _Nearby, near: _OneByOne, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """The values of the program and of the layer at the point and nearby, one row each; and the
    program's values nearby, rounded differently."""
    here = _own_values(program.subject)
    mine, anew = [program.values([here])], []
    there = [values_of(program.subject, [here], mine[0].size)]
    for point in near:
        own, rounded = program.values_and_randomly_rounded([point], [point], rng)
        mine.append(own)
        anew.append(rounded)
        there.append(values_of(program.subject, [point], own.size))
    return np.concatenate(mine), np.concatenate(there), np.concatenate(anew)


def _perturbed_values(leaf: Leaf, parts: Array, dtype: str) -> Array:
    """The leaf's values, each moved by this part of itself, a zero by a part of the leaf's size,
    inside its domain; numbers of the dtype."""
    value = leaf.value
    size = np.where(value == 0, scale_of(value), np.abs(value))
    there = leaf.inside(rounded(value + parts * size, FORMATS[dtype]))
    return there if leaf.holds(there) else np.clip(there, leaf.low, leaf.high)


def _nearly_equal(x: Array, y: Array) -> Array:
    """A mask of the pairs that are equal, and not zero, up to their last digits in float64."""
    size = np.fmin(np.abs(x), np.abs(y))
    return np.asarray((np.abs(x - y) <= FEW_ULPS * FORMATS["float64"].ulp(size)) & (size > 0))


def narrowed(block: TruthBlock, found: EnclosedArray) -> TruthBlock:
    """The block with the enclosures that are narrow; error bars of confirmed entries are no bounds.
    A confirmed zero stays if the enclosure contains zero, too."""
    value, radius = found.value, found.radius
    better = (block.kind == PointKind.SMOOTH) & found.is_narrow(np.zeros(value.shape))
    better &= ~block.confirmed | (np.abs(value) > radius)
    exact = dict.fromkeys(("value", "lower", "upper", "stated"), value)
    return block.at(better, **exact, error=radius, certified=True, confirmed=False)


class _Nearby:
    """The lifted program as a function of the moving leaves of `subject`."""

    def __init__(self, subject: Subject, made: _Made) -> None:
        self.subject = subject
        self._program = made.lifted.program
        self._function = several_points(self._program, "float64")
        self._constants = made.lifted.constants

    def values(self, points: Sequence[Values]) -> Array:
        """The flat values, one row for each point."""
        found = self._function.values([self._inputs(point) for point in points])
        return found.reshape(len(points), -1)

    def values_and_randomly_rounded(
        self, points: Sequence[Values], near: Sequence[Values], rng: np.random.Generator
    ) -> tuple[Array, Array]:
        given, moved = ([self._inputs(one) for one in some] for some in (points, near))
        found = self._function.values_and_randomly_rounded(given, moved, map(word_of, near[0]), rng)
        return found[0].reshape(len(points), -1), found[1].reshape(len(near), -1)

    def exact_value(self, moved: Values, dtype: str) -> Array:
        """The flat value without rounding, with the constants of a dtype; nan if not enclosed."""
        nodes = exact_nodes(self._program, self._inputs(moved), dtype)
        output = self._program.output
        shape = self._program.nodes[output].shape
        return (np.full(shape, np.nan) if nodes is None else np.asarray(nodes[output])).reshape(-1)

    def _inputs(self, moved: Values) -> dict[str, Array]:
        return inputs_of(self.subject, self._constants, moved)


def inputs_of(subject: Subject, constants: Values, moved: Values) -> dict[str, Array]:
    """The inputs of a lifted program by name: the leaves at their own values or where they are
    `moved`, by leaf, and its constants."""
    own = {leaf.name: leaf for leaf in subject.leaves if leaf.name not in moved}
    given = {word_of(name): value for name, value in moved.items()}
    given |= {word_of(name): leaf.value for name, leaf in own.items()}
    return {**given, **constants}
