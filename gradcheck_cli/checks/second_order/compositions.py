"""Second and third derivatives of a layer: its backward, differentiated again."""

from __future__ import annotations

import time
from collections.abc import Mapping, Set
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from gradcheck_cli.checks.bound_layer import BoundLayer, moving_size, output_shape
from gradcheck_cli.checks.certified.lifted import narrowed
from gradcheck_cli.checks.certified.program_truth import ProgramTruth, is_certified
from gradcheck_cli.checks.layer_case import Evaluations, LayerCase
from gradcheck_cli.checks.protocol import Steps
from gradcheck_cli.checks.second_order.causes import Alone, SecondOrderCauses
from gradcheck_cli.checks.second_order.enclosed_hessian import (
    EnclosedBlocks,
    accepted,
    along_firsts,
    enclosed_hessian,
    is_settled,
    truth_of_enclosure,
    with_more_bits,
)
from gradcheck_cli.checks.second_order.hessian import Given, Hessian, block_name, plain_name
from gradcheck_cli.checks.small import is_small
from gradcheck_cli.domain.blocks import HessianBlock
from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.draws import generator
from gradcheck_cli.domain.dtypes import FORMATS, Array, Values, ValuesOrNone
from gradcheck_cli.domain.evaluation import (
    SECOND,
    Evaluation,
    Gradient,
    Mode,
    Projection,
    modes_in,
    order_of,
)
from gradcheck_cli.domain.implications import OF_ORDERS, without_implied
from gradcheck_cli.domain.report import Check, Finding
from gradcheck_cli.domain.scale import scale_of
from gradcheck_cli.domain.thresholds import OPERATIONS, SAME_STEP
from gradcheck_cli.domain.truth import PointKind, Truth, TruthBlock
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.source_lines import raised_at
from gradcheck_cli.engines.layer.subject import Call, Subject, output_size
from gradcheck_cli.engines.tracebacks import (
    one_line,
    raise_if_internal,
    short_traceback,
    where_it_runs,
)
from gradcheck_cli.judge import lose_little, suspect_entries
from gradcheck_cli.judge.measures import is_hidden
from gradcheck_cli.truth.certified.enclosed_products import EnclosedArray
from gradcheck_cli.truth.formulas.compute import NOT_CERTIFIED
from gradcheck_cli.truth.formulas.directional_program import NoDirectional
from gradcheck_cli.truth.layers.callables import STIR, STIRRED, perturbed_leaf
from gradcheck_cli.truth.layers.second_order import Blocks, RowGradients, Weights
from gradcheck_cli.truth.layers.weighing import move_of
from gradcheck_cli.truth.numerics.noise import from_size

ABSORBED = (
    "the derivative is smaller than the rounding error of the function, and is off: rounding may "
    "have absorbed it"
)
OF_ISLANDS = (
    "{}second derivatives are compared with differences of the gradient, because gradcheck has no "
    "formula for {}"
)
UPSTREAM = (
    "the derivative of the gradient by the upstream gradient is wrong: along a direction it is {}; "
    "the gradient itself says {}"
)
OF_FIRST_TERMS = "only the first and second derivatives of {} are known"
MOST = 4096  # the most entries of all leaves, which is the height of the Hessian
DRAWS = 2

T = TypeVar("T")
Named = dict[tuple[str, str], T]
"""Values by mode and name of a block."""


class SecondOrder:
    """Second and third derivatives of a layer by the compositions that its problem requests.

    `wrong` has, by mode, the leaves whose first derivative is wrong. They are left out of the
    compositions with that mode, and those of reverse mode out of all, because differences of the
    gradient may be the truth. The truth is certified from `program` where that is certain. Third
    derivatives have no other truth; they are left out if the second derivative that they
    differentiate is wrong. `alone` examines a call of the layer.
    """

    def __init__(
        self,
        layer: BoundLayer,
        wrong: Mapping[str, Set[str | None]],
        program: ProgramTruth | None,
        alone: Alone | None,
    ) -> None:
        self._layer = layer
        self._program = program
        self._wrong = {mode: set(leaves) for mode, leaves in wrong.items()}
        self.checks: tuple[Check, ...] = ()
        self.findings: tuple[Finding, ...] = ()
        self.notes: list[str] = []
        self._of_row = RowGradients(layer.highest)
        self._causes = SecondOrderCauses(layer.narrow, alone, self.notes)

    def steps(self) -> Steps[None]:
        """Examine all requested compositions; a note names those that are left out."""
        requested = [mode for mode in SECOND if mode in self._layer.problem.modes]
        if moving_size(self._layer.narrow) > MOST:
            self.notes.append(f"second derivatives of more than {MOST} numbers are not checked")
            return
        left_out: dict[str, list[Mode]] = {}
        for mode in requested:
            reason = yield from self._in_mode(mode)
            if reason:
                left_out.setdefault(reason, []).append(mode)
            elif mode == "reverse-over-reverse":
                yield from self._by_upstream(mode)
        for reason, modes in left_out.items():
            names = " and ".join(mode.replace("-", " ") for mode in modes)
            third = " and third" if order_of(requested[-1]) > 2 else ""
            what = f"second{third} derivatives" if modes == requested else names
            verb = "was" if what == names and len(modes) == 1 else "were"
            self.notes.append(f"{self._layer.name}: {what} {verb} left out: {reason}")
        once = dict.fromkeys(self.findings)  # compositions share what is undecided
        self.findings = tuple(without_implied(once, OF_ORDERS))

    def _in_mode(self, mode: Mode) -> Steps[str]:
        """Examine one composition. Return the reason if it is left out, else an empty string."""
        first = frozenset[str | None]().union(
            *(self._wrong.get(one, ()) for one in ("reverse", *modes_in(mode)))
        )
        second = self._wrong.get("-over-".join(modes_in(mode)[1:]), set())
        hessian = Hessian(self._layer, first | second, mode, self._of_row)
        self._note_wrong(hessian, "second" if second - first else "first")
        if not hessian.leaves:
            return ""
        try:
            examined = HessianCase(hessian, self._program_of(hessian))
        except Unsupported as error:
            return str(error)
        except Exception as error:
            raise_if_internal(error)
            if modes_in(mode)[-1] == "forward":  # tangents may not be differentiable
                return one_line(error)
            self._report_not_differentiable(error, hessian)
            return ""
        yield from examined.steps()
        if examined.findings:
            yield from self._layer.doubt()
        if examined.islands_note:
            note = f"{self._layer.name}: {examined.islands_note}"
            self.notes += [] if note in self.notes else [note]
        self.checks += examined.checks
        named = map(self._causes.named, examined.findings)
        self.findings += (*named, *examined.mistakes)
        blocks = [one.input or "" for one in examined.findings if one.severity == "error"]
        self._wrong[mode] = {
            leaf.name
            for leaf in hessian.leaves
            if any(HessianBlock.is_of(block, plain_name(leaf.name)) for block in blocks)
        }
        return ""

    def _by_upstream(self, mode: Mode) -> Steps[None]:
        """Check the derivative of the backward by the upstream gradient. The backward is linear in
        it, so this is J. A layer may lose these terms, which a model around it needs if it is
        differentiated twice, although the layer's own Hessian is right."""
        subject = self._layer.highest
        if self._wrong.get(mode) or self._wrong.get("reverse") or subject.stages:
            return
        rng = generator(self._layer.problem.seed, 59)
        row, other = rng.standard_normal((2, output_size(subject)))
        moving = [leaf for leaf in subject.leaves if leaf.differentiable]
        along = {leaf.name: rng.standard_normal(leaf.shape) for leaf in moving}
        again = where_it_runs(lambda: subject.double_vjp(row, along), None)
        if again is None:
            return
        ran = subject.run(Call(cotangents=other[None]))
        pulled = {name: part for name, part in ran.row(0).items() if part is not None}
        expected = sum(float(part @ along[name].ravel()) for name, part in pulled.items())
        size = sum(
            float(np.abs(part) @ np.abs(along[name].ravel())) for name, part in pulled.items()
        )
        found, half = float(other @ again), FORMATS[subject.digits].half
        bar = half * (size + float(np.abs(other) @ np.abs(again)))
        moves = sum(
            np.max(np.abs(along[leaf.name]), initial=0.0) / scale_of(leaf.value) for leaf in moving
        )
        bar += float(from_size(np.abs(other) @ np.abs(ran.output) * moves, OPERATIONS))
        if not np.isfinite(expected) or abs(found - expected) <= bar:
            return
        yield from self._layer.doubt()
        shown = (f"{one:.6g}" for one in (found, expected))
        message = UPSTREAM.format(*shown)
        finding = self._layer.finding(Codes.WRONG_SECOND_DERIVATIVE, message, mode)
        self.findings += (self._causes.named(finding),)

    def _program_of(self, hessian: Hessian) -> ProgramTruth | None:
        """The program that certifies the Hessian, or None."""
        if self._program is None or not hessian.along:
            return self._program
        try:
            if self._program.islands:
                raise NoDirectional(OF_FIRST_TERMS.format(self._program.islands))
            return self._program.derivative(hessian.along)
        except NoDirectional as why:
            self.notes.append(f"third derivatives are not certified: {why}")
            return None

    def _note_wrong(self, hessian: Hessian, lower: str) -> None:
        """Note the leaves that are left out because their derivatives of `lower` order are
        wrong."""
        checked = {leaf.name for leaf in hessian.leaves}
        left = ", ".join(f"`{leaf.name}`" for leaf in hessian.moving if leaf.name not in checked)
        order = "third" if order_of(hessian.mode) > 2 else "second"
        words = f"{order} derivatives by {left} are not checked: the {lower} is wrong"
        note = f"{self._layer.name} {self._layer.problem.dtype}: {words}"
        if left and note not in self.notes:
            self.notes.append(note)

    def _report_not_differentiable(self, error: Exception, hessian: Hessian) -> None:
        """Report that the backward could not be differentiated."""
        mode = hessian.mode
        name, problem = self._layer.name, self._layer.problem
        words = (str(error).strip() or type(error).__name__).splitlines()[0]
        code = Codes.WRONG_SECOND_DERIVATIVE
        found = self._layer.finding(
            code, f"the gradient cannot be differentiated again: {words}", mode
        )
        checks = tuple(
            Check(
                name, problem.dtype, mode, str(HessianBlock(*key)), "failed", problem.point_number
            )
            for key in hessian.keys
        )
        self.checks += checks
        found = self._causes.named(found)
        place = raised_at(error) or found.place
        self.findings += (replace(found, place=place, detail=short_traceback(error)),)


class HessianCase(LayerCase):
    """The Hessian by one composition. Raises Unsupported, and any exception of the layer when its
    derivative is differentiated."""

    def __init__(self, hessian: Hessian, program: ProgramTruth | None = None) -> None:
        super().__init__(hessian.layer)
        self._program = program
        self._started = time.perf_counter()
        self._hessian = hessian
        self._mode = hessian.mode
        self._mine = hessian.blocks(self.layer.narrow)
        self._truth = hessian.truth()
        self._balls: EnclosedBlocks | None = None

    @cached_property
    def _right(self) -> Given:
        """The blocks in the highest precision. Where the truth is certified, nobody asks for them
        before something is not simply right."""
        narrow, highest = self.layer.narrow, self.layer.highest
        return self._mine if highest is narrow else self._hessian.blocks(highest)

    @cached_property
    def _entries(self) -> Given:
        """The same, each with a row an entry."""
        hessian = self._hessian
        return hessian.of_every_entry(self.layer.highest) if hessian.firsts else self._right

    def _wide(self) -> Evaluations:
        if self.layer.highest is self.layer.narrow:
            return {}
        return {(self.layer.name, self._mode): self._evaluation(self.layer.highest, self._right)}

    @property
    def unsure(self) -> bool:
        return self._truth.unsure

    @property
    def is_certified(self) -> bool:
        return self._program is not None and self._balls is None

    @property
    def islands_note(self) -> str:
        """A note if differences of the gradient decide entries that islands leave open, or ""."""
        program, balls = self._program, self._balls
        if program is None or not program.islands or (balls and is_settled(balls)):
            return ""
        return OF_ISLANDS.format("some " if balls else "", program.islands)

    def is_settled(self) -> bool:
        suspected = suspect_entries(self.case) if self.is_certified else None
        if suspected is None:
            return False
        self.case = replace(self.case, wide=self._wide())
        return lose_little(self.case, suspected)

    def evaluate_in(self, subject: Subject) -> Evaluations:
        blocks = where_it_runs(lambda: self._hessian.blocks(subject), None)
        if blocks is None:  # the truth then decides alone
            return {}
        return {(self.layer.name, self._mode): self._evaluation(subject, blocks)}

    def blocks_at(self, mode: Mode, values: Values) -> ValuesOrNone:
        """The blocks at other values. JAX gives zeros if there is nothing to differentiate."""
        with self.layer.at_values(self.layer.narrow.dtype, values) as there:
            found = {} if there is None else self._hessian.blocks(there)
        return {block_name(key): block for key, block in found.items()}

    def _weights(self) -> Weights | None:
        """How far rounding moves the second derivatives, and the entries of the gradient itself
        that are in doubt. None if the layer does not run at other values."""
        own = self._hessian.filled(self._entries)
        rng = generator(self.layer.problem.seed, 31)
        move = move_of(self.layer.highest.dtype)
        changes = self._changes(own, move, DRAWS, rng)
        stir = STIR * FORMATS[self.layer.highest.dtype].unit_roundoff
        stirred = self._changes(own, stir, STIRRED, rng)
        if changes is None or stirred is None:
            return None
        unit = FORMATS[self.layer.problem.dtype].unit_roundoff
        costs = {
            key: np.sqrt(np.mean((change / move) ** 2, axis=0)) * unit
            for key, change in changes.items()
        }
        return Weights(
            {key: np.where(np.isfinite(cost), cost, 0.0) for key, cost in costs.items()},
            {key: np.max(change, axis=0) for key, change in stirred.items()},
            self._hessian.doubtful(self._truth),
        )

    def _changes(
        self, own: Blocks, move: float, draws: int, rng: np.random.Generator
    ) -> Blocks | None:
        """How far each block moves, (draws, ...), when all numbers move by this part of themselves.
        None if the layer does not run there."""
        found: dict[tuple[str, str], list[Array]] = {key: [] for key in own}
        for _ in range(draws):
            values = {
                leaf.name: perturbed_leaf(leaf, move, rng)
                for leaf in self._hessian.moving
                if leaf.role != "captured"
            }
            with self.layer.at_values(self.layer.highest.dtype, values) as moved:
                if moved is None:
                    return None
                there = self._hessian.filled(self._hessian.of_every_entry(moved))
            for key, block in own.items():
                change = np.abs(there[key] - block)
                found[key].append(np.where(np.isfinite(change), change, 0.0))
        return {key: np.stack(change) for key, change in found.items()}

    def make_case(self, costs: bool = False) -> Case:
        hessian, layer, mode = self._hessian, self.layer, self._mode
        rows = None if output_shape(layer.narrow) == () else hessian.row[None]
        columns = (
            None if hessian.whole else {plain_name(n): d for n, d in hessian.directions.items()}
        )
        evaluation = replace(
            self._evaluation(layer.narrow, self._mine),
            forward=hessian.passes("forward"),
            backward=hessian.passes("reverse"),
            duration_s=time.perf_counter() - self._started,
        )
        firsts = {plain_name(n): d for n, d in hessian.firsts.items()} or None
        projection = Projection(rows, columns, firsts)
        found = self._certified(rows, costs)
        certified = found is not None and self.is_certified
        if found is None:
            found = self._undecided() if hessian.along else self._by_differences(costs)
        wide = {} if certified and not costs else self._wide()
        case = layer.case({mode: projection}, (evaluation,), found, wide)
        return replace(
            case,
            along={plain_name(name): u for name, u in hessian.along.items()},
            spec=replace(case.spec, wrt=tuple(plain_name(leaf.name) for leaf in hessian.leaves)),
            values={plain_name(name): value for name, value in case.values.items()},
        )

    def _certified(self, rows: Array | None, costs: bool) -> Truth | None:
        """The truth of the program. An uncertain one is given up if differences can decide
        instead."""
        hessian, program = self._hessian, self._program
        if program is None:
            return None
        if program.islands or (program.origin and not is_small(self.layer.narrow)):
            return self._enclosed(program, costs)
        columns = None if hessian.whole else hessian.directions
        projection = Projection(rows, columns, hessian.firsts or None)
        leaves = [leaf.name for leaf in hessian.leaves]
        suspects = self.suspect_entries and {
            key: self.suspect_entries[name]
            for key in hessian.keys
            if (name := (self._mode, block_name(key))) in self.suspect_entries
        }
        truth, blocks = program.second_order(self._mode, projection, leaves, costs, suspects)
        if not hessian.along and not is_certified(blocks.values()):
            self._program = None
            return None
        found, reasons = self._blocks_and_reasons(blocks, {}, costs)
        return replace(truth, blocks=found, reasons=reasons)

    def _enclosed(self, program: ProgramTruth, costs: bool) -> Truth | None:
        """The truth of a large layer's program: float64 enclosures, and differences where these are
        too wide or the cost of rounding is requested."""
        hessian = self._hessian
        if self._balls is None:
            self._balls = enclosed_hessian(program, hessian.row, hessian.directions)
        if not self._balls:
            return None
        if costs:  # something is suspect
            self._balls = with_more_bits(program, hessian.row, hessian.directions, self._balls)
        balls = {key: ball for key, ball in self._balls.items() if key in hessian.keys}
        rows = along_firsts(balls, hessian.firsts) if hessian.firsts else balls
        if hessian.along or (is_settled(rows) and not costs):
            blocks = {key: truth_of_enclosure(ball) for key, ball in rows.items()}
            why: Mapping[tuple[str, str], str] = {}
        else:
            under, why = self._differences(costs)
            under = {key: narrowed(under[key], accepted(ball)) for key, ball in balls.items()}
            along = hessian.along_rows(under)
            blocks = {key: narrowed(along[key], accepted(ball)) for key, ball in rows.items()}
        found, reasons = self._blocks_and_reasons(blocks, why, costs)
        return replace(self._truth_of(found, reasons), origin=program.origin)

    def _blocks_and_reasons(
        self,
        blocks: Mapping[tuple[str, str], TruthBlock],
        why: Mapping[tuple[str, str], str],
        costs: bool,
    ) -> tuple[Named[TruthBlock], Named[str]]:
        """Certified blocks by mode and name, and the reasons why entries are undecided; if `costs`,
        entries that rounding may have absorbed are among them."""
        found: Named[TruthBlock] = {}
        reasons: Named[str] = {}
        for key, block in blocks.items():
            name = (self._mode, block_name(key))
            found[name] = self._open_where_absorbed(key, block) if costs else block
            if np.any(found[name].kind == PointKind.UNDECIDED):
                is_open = self._hessian.along and not is_certified([block])
                reasons[name] = why.get(key, NOT_CERTIFIED if is_open else ABSORBED)
        return found, reasons

    def _open_where_absorbed(self, key: tuple[str, str], block: TruthBlock) -> TruthBlock:
        """The block, undecided where the truth and its error are both within the function's own
        rounding. If 1 - y^2 absorbs terms, every precision returns the same wrong number, and no
        traced operation of a second derivative could tell it from a wrong rule. An error that is a
        rounding of a larger entry nearby is none, and needs no excuse."""
        given = self._right.get(key)
        own = np.zeros_like(block.value) if given is None else given
        natural = self._truth.natural_block(*key, most=1.0)  # saturation happens on this scale
        if self._hessian.firsts:
            natural = np.abs(self._hessian.firsts[key[0]]) @ natural
        fmt = FORMATS[self.layer.highest.dtype]
        size = OPERATIONS * fmt.unit_roundoff * natural
        truth, off = np.abs(block.value), np.abs(own - block.value)
        lost = (truth > block.error) & (off > SAME_STEP * truth) & (np.fmax(off, truth) <= size)
        lost &= block.certified & (own != 0)  # an entry of 0 is lost, whatever the cause
        lost &= ~is_hidden(own, block, fmt)
        return block.undecided_at(lost)

    def _differences(
        self, costs: bool
    ) -> tuple[dict[tuple[str, str], TruthBlock], dict[tuple[str, str], str]]:
        """Every block by differences of the gradient, and the reasons why entries are undecided."""
        weights = self._weights() if costs else None
        return self._truth.blocks(self._hessian.filled(self._entries), weights)

    def _by_differences(self, costs: bool) -> Truth:
        """The truth from differences of the gradient."""
        entries, reasons = self._differences(costs)
        return self._truth_of(
            self._by_block_name(self._hessian.along_rows(entries)), self._by_block_name(reasons)
        )

    def _undecided(self) -> Truth:
        """An undecided truth: differences of a second derivative show its rounding before the third
        derivative."""
        shapes = {key: block.shape for key, block in self._hessian.filled(self._entries).items()}
        blocks = {
            key: truth_of_enclosure(EnclosedArray(np.zeros(shape), np.full(shape, np.inf)))
            for key, shape in shapes.items()
        }
        why = dict.fromkeys(blocks, NOT_CERTIFIED)
        return self._truth_of(self._by_block_name(blocks), self._by_block_name(why))

    def _by_block_name(self, blocks: Mapping[tuple[str, str], T]) -> Named[T]:
        return {(self._mode, block_name(key)): block for key, block in blocks.items()}

    def _truth_of(self, blocks: Named[TruthBlock], reasons: Named[str]) -> Truth:
        output = self._hessian.of_row.value
        return Truth(
            dtype=self.layer.problem.dtype,
            output=output,
            output_error=from_size(output, 16, self.layer.highest.dtype),
            blocks=blocks,
            reasons=reasons,
        )

    def _evaluation(self, subject: Subject, blocks: Given) -> Evaluation:
        return Evaluation(
            engine=self.layer.name,
            dtype=subject.dtype,
            rounding=self.layer.problem.dtype,
            mode=self._mode,
            output=self.layer.value(subject).reshape(output_shape(subject)),
            gradients={block_name(key): Gradient(block) for key, block in blocks.items()},
        )
