"""Find what a spec declares `by_design` inside a layer, and use it as the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.checks.findings import BadSpec
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.draws import generator, signs
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.implementation import ByDesign
from gradcheck_cli.domain.layer import LayerAnswer, LayerProblem, Meant
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.domain.synonyms import nearest
from gradcheck_cli.domain.thresholds import NOTE_BITS
from gradcheck_cli.engines.layer.declared import Declared, Formula, NotDeclarable
from gradcheck_cli.engines.layer.subject import Subject, output_size
from gradcheck_cli.formula import Argument, FormulaError, parse
from gradcheck_cli.specfile.stretches import NoStretch, Stretch, stretch
from gradcheck_cli.truth.plain import PlainFunction, inlined

DECLARED = "declared"  # the source of the truth of a layer with declarations
FIRST_ORDER_ONLY = "second derivatives are not checked: `by_design` declares only first derivatives"


def declared_in(problem: LayerProblem) -> dict[int, ByDesign]:
    """The declarations about the engine of this problem, by their index in the spec."""
    engine = problem.implementation.engine
    return {i: one for i, one in enumerate(problem.spec.by_design) if one.concerns(engine)}


class Design:
    """The declarations of a spec, applied to `subject`, which gives the truth. Raises BadSpec if
    the source has no such lines, and NotDeclarable if a declared call cannot be followed."""

    def __init__(self, problem: LayerProblem, subject: Subject) -> None:
        self._problem = problem
        self._designs = declared_in(problem)
        self.subject = subject
        self.any = False
        if not self._designs:
            return
        plain = subject.value({})
        self._declared = Declared(self._designs, self._stretches(), self._formulas())
        self._slope = _Slope(problem, subject)
        without = self._slope.slope_and_size()
        subject.hold(self._declared)
        self.any = self._declared.any
        if not self.any:
            return
        if not self._is_as_before(plain, subject.value({})):
            first = next(one for one in self._declared.found.values() if one.count)
            raise NotDeclarable(
                first.design, "changes the value of the layer when its declared derivative is used"
            )
        self._needless = self._slope.is_same(without)

    def _is_as_before(self, one: Array, other: Array) -> bool:
        """Whether two values are equal to half of the digits."""
        half = FORMATS[self.subject.dtype].half
        scale = np.max(np.abs(one[np.isfinite(one)]), initial=0.0)
        return bool(np.allclose(one, other, rtol=0.0, atol=half * scale, equal_nan=True))

    def _stretches(self) -> dict[int, Stretch]:
        folder = self._problem.implementation.folder
        stretches = {}
        for index, design in self._designs.items():
            if design.detach:
                try:
                    stretches[index] = stretch(design.detach, folder)
                except NoStretch as error:
                    raise _bad(design, str(error), error.help) from None
        return stretches

    def _formulas(self) -> dict[int, Formula]:
        return {
            index: _formula(self._problem, design, design.surrogate)
            for index, design in self._designs.items()
            if design.surrogate is not None
        }

    def modes(self, problem: LayerProblem) -> tuple[Mode, ...]:
        """The modes in which the framework should return the declared derivative."""
        if not self.any or problem.named_modes:
            return problem.modes
        if all(one.stops_tangents for one in self._declared.found.values()):
            return problem.modes
        return tuple(mode for mode in problem.modes if mode != "forward")

    def declared(self, answer: LayerAnswer) -> LayerAnswer:
        """The answer, with the declaration named as the source of its truth."""
        if not self.any:
            return answer
        return replace(
            answer,
            checks=tuple(replace(check, truth=DECLARED) for check in answer.checks),
            findings=tuple(map(self._with_declaration, answer.findings)),
        )

    def _with_declaration(self, finding: Finding) -> Finding:
        source = finding.truth_source and DECLARED
        formulas = [
            f"the derivative of `{one.design.function}` is declared as that of "
            f"`{one.design.surrogate}`"
            for one in self._declared.found.values()
            if one.count and one.design.surrogate is not None
        ]
        if finding.code != Codes.WRONG_GRADIENT or finding.cause is not None or not formulas:
            return replace(finding, truth_source=source)
        message = "; ".join([finding.message, *formulas])
        return replace(finding, message=message, truth_source=source)

    @property
    def declaration_matches(self) -> tuple[Meant, ...]:
        """The matches of each declaration, for the report."""
        return tuple(
            Meant(
                index,
                one.count,
                tuple(one.places),
                "" if one.count else nearest(one.design.function, self._declared.names) or "",
                one.stops_tangents,
            )
            for index, one in (self._declared.found.items() if self._designs else ())
        )

    def notes(self) -> Iterator[str]:
        """Sentences that say which parts are accepted by design, and why."""
        if not self.any:
            return
        for one in self._declared.found.values():
            if one.count:
                yield f"by design: {_words(one.design, tuple(one.places))}: {one.design.reason}"
        if self.modes(self._problem) != self._problem.modes:
            yield "forward mode was left out: `torch.no_grad()` does not stop tangents"
        if self._needless:
            yield "`by_design` changes nothing here: the derivative is the same without it"


def _words(design: ByDesign, places: tuple[str, ...]) -> str:
    if design.detach:
        return f"values that leave the graph at {design.detach} are constants"
    where = next((f" ({place})" for place in places if place), "")
    if design.surrogate is not None:
        return f"`{design.function}`{where} has the derivative of {design.surrogate}"
    return f"the backward of `{design.function}`{where} is its derivative"


def _bad(design: ByDesign, message: str, help: str = "") -> BadSpec:
    return BadSpec([FormulaError(Codes.SPEC_SCHEMA, f"by_design: {message}", design.span, help)])


def not_held(error: NotDeclarable) -> BadSpec:
    """Report a declared call that cannot be followed as a mistake of the spec."""
    message = str(error).removeprefix("by_design: ")
    return _bad(error.design, message, "remove it, or check the layer without this part")


def _formula(problem: LayerProblem, design: ByDesign, text: str) -> Formula:
    """The surrogate as a function of the function's arguments, in float64."""
    constants, known = problem.spec.constants, {}

    def value(given: Mapping[str, Any]) -> Array:
        arrays = {name: np.asarray(one) for name, one in given.items()}
        key = tuple((name, one.shape, one.dtype.kind) for name, one in arrays.items())
        if key not in known:
            arguments = {name: Argument.of(array) for name, array in arrays.items()}
            own = {n: c for n, c in constants.items() if n not in arrays}
            parsed = parse(text, constants=own, inputs=arguments)
            if parsed.program is None:
                raise NotDeclarable(
                    design, f"has the surrogate `{text}`: {parsed.errors[0].message}"
                )
            known[key] = PlainFunction(inlined(parsed.program), "float64")
        return known[key](arrays)

    return value


class _Slope:
    """The layer's slope along random signs of all moving entries, for a random cotangent: a central
    difference with two thirds of the digits."""

    def __init__(self, problem: LayerProblem, subject: Subject) -> None:
        self._subject = subject
        self._bits = FORMATS[subject.dtype].bits
        rng = generator(problem.seed, 37)
        self._row = rng.standard_normal(output_size(subject))
        self._ends: list[dict[str, Array]] = [{}, {}]
        self._step = 2.0 ** -round(self._bits / 3)
        for leaf in subject.leaves:
            entry = problem.inputs.get(leaf.name)
            if not leaf.differentiable:
                continue
            low, high = (entry.low, entry.high) if entry else (-np.inf, np.inf)
            size = np.max(np.abs(leaf.value), initial=0.0) or 1.0
            along = signs(rng, leaf.shape)
            for side, end in zip((1.0, -1.0), self._ends, strict=True):
                end[leaf.name] = np.clip(leaf.value + side * self._step * size * along, low, high)

    def slope_and_size(self) -> tuple[float, float]:
        """The slope, and the sum of the sizes of its terms."""
        above, below = (self._subject.value(end) for end in self._ends)
        parts = self._row * (above - below) / (2 * self._step)
        return float(np.sum(parts)), float(np.sum(np.abs(parts)))

    def is_same(self, before: tuple[float, float]) -> bool:
        """Whether the slope equals its earlier value to a quarter of the digits."""
        now = self.slope_and_size()
        near = abs(now[0] - before[0]) <= 2.0 ** -(NOTE_BITS * self._bits) * max(now[1], before[1])
        return bool(near)
