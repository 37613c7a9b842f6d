"""Examine a small layer for the judge: every entry of its Jacobian in every mode, and the truth."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields

import numpy as np

from gradcheck_cli.checks.admissible import Admissible
from gradcheck_cli.checks.bound_layer import BoundLayer, moving_size, output_shape
from gradcheck_cli.checks.bounds import with_guards
from gradcheck_cli.checks.certified.lifted import CONTRADICTED, LiftedTruth, by_differences
from gradcheck_cli.checks.certified.program_truth import ProgramTruth
from gradcheck_cli.checks.layer_case import Evaluations, Gradients
from gradcheck_cli.checks.protocol import Steps
from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Evaluation, Gradient, Mode, Projection
from gradcheck_cli.domain.records import replace
from gradcheck_cli.domain.thresholds import BUBBLE
from gradcheck_cli.domain.truth import PointKind, Truth, TruthBlock
from gradcheck_cli.engines.layer.subject import Call, Subject, output_size
from gradcheck_cli.judge import is_suspect, lose_little, mode_disagreements, suspect_entries
from gradcheck_cli.truth.certified.enclosed_products import TooManyNumbers
from gradcheck_cli.truth.layers.callables import (
    STIRRED,
    CallableTruth,
    far_rounded,
    own_size,
    ulp_perturbed,
)
from gradcheck_cli.truth.layers.visibility import NO_EFFECT, words_of_bubbles

ENTRIES = 1024  # the most entries of a Jacobian that is computed whole
PASSES = 64  # the most backward passes for a whole Jacobian
CAST = (
    "the layer computes in float32 internally: its float64 gradient is judged at float32 precision"
)


def is_small(subject: Subject) -> bool:
    """Whether the Jacobian is small enough to compute whole."""
    rows = output_size(subject)
    return rows <= PASSES and rows * moving_size(subject) <= ENTRIES


class Whole(Gradients):
    """One problem whose Jacobian is small. The truth comes from `program` if one is certain, else
    from confirmed finite differences. If `uncast`, `highest` is the layer without its casts."""

    def __init__(self, layer: BoundLayer, program: ProgramTruth | None, uncast: bool) -> None:
        super().__init__(layer)
        problem = layer.problem
        self.program = program
        self._partly: LiftedTruth | None = None  # gives derivatives only
        if isinstance(program, LiftedTruth) and program.has_islands:
            self.program, self._partly = None, program
        self._uncast = uncast
        self._output: Array | None = None  # of `narrow`, from the run in reverse mode
        self._truth = CallableTruth(
            layer.highest,
            layer.bounds,
            problem.dtype,
            problem.seed,
            searches=isinstance(program, LiftedTruth) and program.searches,
            coarser=layer.coarser,
        )
        self.evaluate()

    @property
    def cotangents(self) -> Array:
        return self._truth.cotangents

    @property
    def differentiated(self) -> ProgramTruth | None:
        """The program that gives the second derivatives of the layer, or None."""
        return self.program or self._partly

    @property
    def unsure(self) -> bool:
        return self._truth.unsure

    @property
    def is_certified(self) -> bool:
        return self.program is not None and not self._uncast

    def noise(self) -> Mapping[str, Array]:
        """How far the layer's rounding moves its gradient in the highest precision, (m, n) a
        leaf."""
        return self._truth.noise()

    def make_case(self, costs: bool = False) -> Case:
        layer = self.layer
        modes: dict[Mode, Mapping[str, Array] | None] = {"reverse": None}
        projections: dict[Mode, Projection] = {"reverse": Projection()}
        if self.has_forward:
            modes["forward"] = self.pushes.directions
            projections["forward"] = Projection(columns=self.pushes.directions)
        truth = self._certified(projections, costs)
        sure = truth is not None
        if truth is None:
            truth = self._truth.truth(modes, costs)
        elif isinstance(self.program, LiftedTruth) and not self.program.is_sure(truth):
            sure, truth = False, _overlaid(self._truth.truth(modes, costs), truth)
        wide: Evaluations = {}
        if layer.highest is not layer.narrow and (costs or not sure):
            wide = self._wide()
            wide |= self.in_forward(layer.highest) if costs and not self.suspect_entries else {}
        if self._partly is not None:
            truth = self._narrowed(self._partly, truth)
        seen = (np.all(block.certified | (block.value == 0)) for block in truth.blocks.values())
        if self._partly is None or not all(seen):
            self.notes += [f"{layer.name}: {words}" for words in self._truth.notes]
        if costs and isinstance(layer.highest, Admissible):
            truth = layer.highest.costing(truth)
        return layer.case(projections, self.evaluations, truth, wide)

    def _certified(self, projections: Mapping[Mode, Projection], costs: bool) -> Truth | None:
        """The truth of the program. A lifted program is given up if nothing of it is certified and
        no tie decides, or if finite differences contradict it."""
        program = self.program
        if program is None:
            return None
        truth = program.truth(projections, costs, self.suspect_entries)
        if not isinstance(program, LiftedTruth):
            return truth
        sure = program.is_sure(truth)
        known = [block.certified for block in truth.blocks.values()]
        some = any(map(np.any, [*known, *truth.tied.values()]))
        beside = costs and self.suspect_entries is None
        taken = beside or not sure or program.searches
        agrees = not some or self._agrees(program, truth, taken)
        if not some or not agrees:
            reason = truth.fallback if agrees else CONTRADICTED
            if reason:
                self.notes.append(by_differences(self.layer, reason))
            self._truth.doubt = program.doubt
            self.program = None
            return None
        how = "no operation that ran leads from it to the output"
        words = [NO_EFFECT.format(name, how) for name in program.unreached]
        self.notes += [f"{self.layer.name}: {one}" for one in words]
        if sure:
            self._note_bubbles(truth)
        return self._with_differences(truth) if sure and beside else truth

    def _narrowed(self, program: LiftedTruth, truth: Truth) -> Truth:
        """The truth with the enclosures of a program in which lines replace some operations."""
        from reference_engine.arithmetic.arbs import NotInBalls, Undecided

        try:
            found = program.narrowed(truth, self.pushes.directions)
            if self._agrees(program, found, True):
                return found
            reason = CONTRADICTED
        except (NotInBalls, TooManyNumbers, Undecided) as refusal:
            reason = str(refusal)
        self.notes.append(by_differences(self.layer, reason))
        self._partly = None
        return truth

    def _agrees(self, program: LiftedTruth, truth: Truth, taken: bool) -> bool:
        """Whether no finite difference contradicts the truth; True if none are `taken`."""
        own = self._truth
        if not taken:
            return True
        found = own.differences()
        return program.agrees(truth, own.gradients, found, own.stairs)

    def _note_bubbles(self, truth: Truth) -> None:
        """Add a note about derivatives that hold only within a tiny stretch around the point. Only
        derivatives so steep that they would change the value within this stretch are examined."""
        size = np.max(np.abs(truth.output), initial=0.0, where=np.isfinite(truth.output))
        for leaf in self._truth.moving:
            rise = np.abs(truth.blocks["reverse", leaf.name].value) * own_size(leaf.value)
            if np.any(BUBBLE * rise > size):
                own, found = self._truth.gradients[leaf.name], self._truth.differences()[leaf.name]
                self.notes += [
                    f"{self.layer.name}: {words}"
                    for words in words_of_bubbles(leaf.name, leaf.value, own, found)
                ]

    def _with_differences(self, truth: Truth) -> Truth:
        """Add finite differences of the layer to the truth, where the program has none."""
        blocks = dict(truth.blocks)
        for name, found in self._truth.differences().items():
            block = blocks["reverse", name]
            open_ = np.isnan(block.difference) & np.isfinite(found.error) & ~found.vouched
            taken = {"difference": found.value, "difference_error": found.error}
            blocks["reverse", name] = block.at(open_, **taken)
        return replace(truth, blocks=blocks)

    def is_settled(self) -> bool:
        """True if the truth is certified and no suspect entry loses much. Suspect columns of
        forward mode are compared with the same columns in the highest precision, too."""
        layer = self.layer
        suspected = suspect_entries(self.case)
        if not self.is_certified or suspected is None:
            return False
        if layer.highest is not layer.narrow and not self.case.wide:  # not evaluated so far
            self.case = replace(self.case, wide=self._wide(suspected))
        case = self.case
        pushed = [name for mode, name in suspected if mode == "forward"]
        columns = {name: np.any(suspected["forward", name], axis=0) for name in pushed}
        if any(map(np.any, columns.values())) and layer.highest is not layer.narrow:
            pulled = tuple(one for one in case.evaluations if one.mode == "reverse")
            if not lose_little(replace(case, evaluations=pulled), suspected):
                return False
            (known,) = (one.output for one in case.wide.values() if one.mode == "reverse")
            again = self.pushes.evaluation(layer.highest, known, columns)
            if again is not None:
                case = replace(case, wide={**case.wide, (layer.name, "forward"): again})
        return lose_little(case, suspected)

    def cost_of_rounding(self) -> Steps[Case]:
        case = yield from super().cost_of_rounding()
        if is_suspect(case) and not self._uncast and self._judge_as_float32():
            return self.costed()
        return case

    def _judge_as_float32(self) -> bool:
        """Judge by float32 precision from now on, if float64 numbers became float32 inside the
        layer in a way that no watch sees. Return whether that is so. A lifted layer does nothing
        unwatched: its noise is rounding in float64."""
        problem = self.layer.problem
        is_watched = isinstance(self.program, LiftedTruth)
        if problem.dtype != "float64" or not self._truth.cast or is_watched:
            return False
        self.layer = replace(self.layer, problem=replace(problem, dtype="float32"))
        self._truth.dtype = "float32"
        self.evaluations = tuple(replace(one, rounding="float32") for one in self.evaluations)
        self.notes.append(f"{self.layer.name}: {CAST}")
        return True

    def costed(self) -> Case:
        """The case with the cost of rounding. Forward mode rounds in its own way: if it is off, or
        disagrees with reverse mode, its change under moves of a few ulps is part of the floor."""
        case = super().costed()
        pushed = next((one for one in case.evaluations if one.mode == "forward"), None)
        if case.truth is None or pushed is None or pushed.failure is not None:
            return case
        names = {name for one, name, _, _ in mode_disagreements(case) if one.mode == "reverse"}
        off = suspect_entries(case) or {}
        names |= {name for (mode, name), mask in off.items() if mode == "forward" and np.any(mask)}
        names -= {name for name in names if np.all(case.truth.blocks["forward", name].certified)}
        blocks = dict(case.truth.blocks)
        for seed in range(STIRRED if names else 0):
            found = self.blocks_at("forward", ulp_perturbed(self.layer.narrow, seed))
            for name in names:
                there, here = found.get(name), pushed.gradients[name].values
                if there is None or here is None:
                    continue
                moved = np.abs(there - here)
                moved = np.where(np.isfinite(moved), moved, np.abs(here))  # no digit is right
                for mode in ("reverse", "forward"):
                    block = blocks[mode, name]
                    if block.value.shape != moved.shape:
                        continue  # the other mode has products only
                    blocks[mode, name] = replace(block, floor=np.fmax(block.floor, moved))
        return replace(case, truth=replace(case.truth, blocks=blocks))

    def perturbed_evaluations(self) -> Evaluations:
        """Reverse mode after moves of a few ulps: an error that stays is no rounding error. But a
        saturated result, such as tanh(3), is rounded to the same number then. Where the truth is
        certified, an error must stay at points farther away, too."""
        near, program, truth = self.reverse(self.layer.narrow, stirred=True), self.program, None
        mine = next((one for one in self.evaluations if one.mode == "reverse"), None)
        if self.is_certified:
            truth = self.case.truth
        if program is None or mine is None or truth is None:
            return {(self.layer.name, "reverse"): near}
        found = {name: one.values for name, one in near.gradients.items()}
        for seed in range(STIRRED):
            there = far_rounded(self.layer.narrow, seed)
            true = program.gradients_at(there)
            ran = self.layer.narrow.run(Call(there, self.cotangents))
            for name, again in found.items():
                g, moved = mine.gradients[name].values, ran.gradients.get(name)
                if again is None or g is None or moved is None:
                    continue
                block = truth.blocks["reverse", name]
                same = _with_same_error(g, block.value, moved, true[name])
                found[name] = np.where(np.abs(same - g) > np.abs(again - g), same, again)
        gradients = {n: replace(one, values=found[n]) for n, one in near.gradients.items()}
        return {(self.layer.name, "reverse"): replace(near, gradients=gradients)}

    def completed(self) -> Case:
        return with_guards(self.case, self.layer.highest)

    def reverse(self, subject: Subject, stirred: bool = False) -> Evaluation:
        """The Jacobian by reverse mode, all rows. If `stirred`, all numbers are moved by a few ulps
        first."""
        started = time.perf_counter()
        if subject is self.layer.highest and not stirred:
            ran, seconds = self._truth.ran, self._truth.seconds  # the truth made the same run
        else:
            ran = subject.run(Call(ulp_perturbed(subject) if stirred else {}, self.cotangents))
            seconds = time.perf_counter() - started
        if subject is self.layer.narrow and not stirred and not subject.stages:
            self._output = ran.output
        return self.evaluation(subject, ran, seconds)

    def _wide(
        self, suspected: Mapping[tuple[str, str], Array] | None = None
    ) -> dict[tuple[str, str], Evaluation]:
        """Reverse mode in the highest precision: all rows, or only those with `suspected` entries,
        the others possibly nan. If the truth is certified, this is needed only for suspects."""
        truth, layer = self._truth, self.layer
        if suspected is None:
            output, gradients = truth.output, truth.gradients
        else:
            output, gradients = truth.some_rows(_rows(suspected, len(self.cotangents)))
        found = Evaluation(
            engine=layer.name,
            dtype=layer.highest.dtype,
            rounding=layer.problem.dtype,
            mode="reverse",
            output=output.reshape(output_shape(layer.narrow)),
            gradients={name: Gradient(g) for name, g in gradients.items()},
        )
        return {(layer.name, "reverse"): found}

    def forward(self, subject: Subject) -> Evaluation | None:
        known = self._output if subject is self.layer.narrow else None
        if subject is self.layer.highest:
            known = self._truth.output
        return self.pushes.evaluation(subject, known)


def _rows(suspected: Mapping[tuple[str, str], Array], count: int) -> Array:
    """A mask (count,) of the rows of reverse mode that have a suspected entry."""
    found = np.zeros(count, np.bool_)
    for (mode, _), off in suspected.items():
        if mode == "reverse":
            found |= np.any(off, axis=1)
    return found


def _overlaid(found: Truth, lifted: Truth) -> Truth:
    """The truth by finite differences, replaced by the lifted truth where that is certified, and
    where the program is exactly at a kink or jump beside which the layer is smooth: literals of a
    layer in float64 do not have the judged dtype."""
    known = {}
    for key, block in lifted.blocks.items():
        apart = (found.blocks[key].kind == PointKind.SMOOTH) & (block.kind != PointKind.SMOOTH)
        known[key] = block.certified | (apart & lifted.tied.get(key, False))
    names = [one.name for one in fields(TruthBlock) if not one.name.startswith("difference")]
    blocks = {
        key: found.blocks[key].at(
            mask, **{name: getattr(lifted.blocks[key], name) for name in names}
        )
        for key, mask in known.items()
    }
    kinks = any(np.any(known[key] & ~block.certified) for key, block in lifted.blocks.items())
    open_ = [key for key, one in blocks.items() if np.any(one.kind == PointKind.UNDECIDED)]
    return replace(
        lifted,
        blocks=blocks,
        reasons={key: found.reasons[key] for key in open_ if key in found.reasons},
        hulls=lifted.hulls if kinks else found.hulls,
        forward=found.forward,
    )


def _with_same_error(g: Array, truth: Array, moved: Array, truth_there: Array) -> Array:
    """The gradient here if it had the error of the gradient `moved` at another point: absolutely or
    in relation to the truth, whichever is nearer to `g`. Zeros stay 0, and where the truth there
    is unknown (nan), nothing is learned."""
    error = moved - truth_there
    with np.errstate(all="ignore"):
        scaled = truth + error * (truth / truth_there)
    plain = truth + error
    same = np.where(np.abs(scaled - g) < np.abs(plain - g), scaled, plain)
    same = np.where(moved == 0, 0.0, same)
    return np.where(np.isfinite(truth_there), same, g)
