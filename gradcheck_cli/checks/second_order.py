"""Second derivatives of a layer: what its backward gives when it is differentiated again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gradcheck_cli.checks.shape import moving_size, output_shape, output_size, with_layer
from gradcheck_cli.checks.unfilled_entries import with_zeros_stated
from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.codes import CODES, Codes
from gradcheck_cli.domain.draws import direction
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import SECOND, Evaluation, Gradient, Mode, Projection
from gradcheck_cli.domain.layer import LayerProblem
from gradcheck_cli.domain.report import Check, Finding
from gradcheck_cli.domain.scale import tangent_scale
from gradcheck_cli.domain.truth import Truth
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.custom import CustomCall
from gradcheck_cli.engines.layer.source_lines import returned
from gradcheck_cli.engines.layer.subject import Subject
from gradcheck_cli.engines.tracebacks import one_line, short_traceback
from gradcheck_cli.explain.findings import explain
from gradcheck_cli.judge import judge, suspects
from gradcheck_cli.truth.numerics.noise import from_size
from gradcheck_cli.truth.of_layers import STIR, STIRRED, stirred
from gradcheck_cli.truth.second_order import Blocks, SecondTruth, Weights
from gradcheck_cli.truth.weighing import move_of

FORWARD: Mode = "forward-over-reverse"
COLUMNS = 16  # entries of all inputs for a whole Hessian; beyond that, DIRECTIONS a leaf
DIRECTIONS = 2  # one Gaussian, one of Rademacher
MOST = 4096  # entries: a Hessian is as tall as there are
DRAWS = 2

Bind = Callable[[str, Mapping[str, Array]], Subject | None]


@dataclass
class Second:
    """One problem of second order: the Hessian of a random product of the outputs, or of the output
    where that is one number. `bind` gives the layer in a dtype with other inputs and parameters,
    or None; `doubt` is asked before something is told. Of inputs whose first derivative is `wrong`
    (None: nobody knows of which) there is no truth: differences of a wrong gradient."""

    name: str
    problem: LayerProblem
    narrow: Subject
    highest: Subject
    bind: Bind
    doubt: Callable[[], None]
    wrong: Set[str | None] = frozenset()
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        fmt = FORMATS[self.problem.dtype]
        rng = np.random.default_rng([self.problem.seed, 29])
        size = output_size(self.narrow)
        self._row = np.ones(1) if size == 1 else fmt.round(rng.standard_normal(size))
        self._moving = [leaf for leaf in self.narrow.leaves if leaf.differentiable]
        self._leaves = [leaf for leaf in self._moving if not {leaf.name, None} & self.wrong]
        right = {leaf.name for leaf in self._leaves}
        left = ", ".join(f"`{leaf.name}`" for leaf in self._moving if leaf.name not in right)
        if left:
            self.notes.append(
                f"{self.name} {self.problem.dtype}: second derivatives by {left} are not checked: "
                "the first is wrong"
            )
        self._whole = moving_size(self.narrow) <= COLUMNS
        self._directions = {}
        for leaf in self._leaves:
            drawn = np.stack([direction(rng, leaf.size, turn) for turn in range(DIRECTIONS)])
            along = np.eye(leaf.size) if self._whole else drawn * tangent_scale(leaf.value)
            self._directions[leaf.name] = fmt.round(along)

    def judged(self) -> tuple[tuple[Check, ...], tuple[Finding, ...]]:
        """Checks and findings; a note where second derivatives are not looked at."""
        if not self._leaves:
            return (), ()
        if moving_size(self.narrow) > MOST:
            self.notes.append(f"second derivatives of more than {MOST} numbers are not checked")
            return (), ()
        modes = [mode for mode in SECOND if mode in self.problem.modes]
        answers = [self._judged(mode) for mode in modes]
        return (
            tuple(check for checks, _ in answers for check in checks),
            tuple(finding for _, findings in answers for finding in findings),
        )

    def _judged(self, mode: Mode) -> tuple[tuple[Check, ...], tuple[Finding, ...]]:
        started = time.perf_counter()
        try:
            mine = self._blocks(self.narrow, mode)
            right = mine if self.highest is self.narrow else self._blocks(self.highest, mode)
        except Unsupported as error:
            words = "forward over reverse was" if mode == FORWARD else "second derivatives were"
            self.notes.append(f"{self.name}: {words} left out: {error}")
            return (), ()
        except Exception as error:
            return self._not_again(error, mode)
        case = self._case(mode, mine, right, None, started)
        if suspects(case):
            self.doubt()
            case = self._case(mode, mine, right, self._weights(right, mode), started)
            case = self._with_never_filled(case, mode)
        if suspects(case) and self.highest is self.narrow and self.narrow.dtype == "float64":
            case = self._with_other_precision(case, mode)
        checks, findings = judge(case)
        if findings:
            self.doubt()
        return checks, tuple(map(self._forbidden, explain(case, findings)))

    def _forbidden(self, finding: Finding) -> Finding:
        """A missing second derivative, with the function whose author forbids one."""
        first = (finding.input or "").partition(".")[0]
        for call in (
            self._once
            if finding.code == Codes.WRONG_SECOND_DERIVATIVE and not finding.entries
            else ()
        ):
            if first in map(_plain, call.reaches):
                by = f"`once_differentiable` forbids a second derivative of `{call.name}`"
                place = returned(call.backward, None) or call.place
                return replace(finding, message=f"{finding.message}: {by}", place=place)
        return finding

    @cached_property
    def _once(self) -> list[CustomCall]:
        try:
            return [call for call in self.narrow.functions() if call.once]
        except Exception as error:  # the layer does not run while it is watched
            self.notes.append(f"its functions could not be looked at: {one_line(error)}")
            return []

    # Blocks

    def _blocks(self, subject: Subject, mode: Mode) -> dict[tuple[str, str], Array | None]:
        """d(ds/da)/db along the directions of b; None where there is none."""
        asked = (
            subject.hvp_forward_over_reverse
            if mode == FORWARD
            else subject.hvp_reverse_over_reverse
        )
        found: dict[tuple[str, str], Array | None] = {}
        for second in self._leaves:
            columns = [
                asked(self._row, {second.name: along.reshape(second.value.shape)})
                for along in self._directions[second.name]
            ]
            for first in self._leaves:
                parts = [column.get(first.name) for column in columns]
                known = [part for part in parts if part is not None]
                zeros = np.zeros(first.size)
                found[first.name, second.name] = (
                    np.stack([zeros if p is None else p for p in parts], axis=1) if known else None
                )
        return found

    def _filled(self, blocks: Mapping[tuple[str, str], Array | None]) -> Blocks:
        """Zeros where there is nothing: differences tell whether that is right."""
        sizes = {leaf.name: leaf.size for leaf in self._leaves}
        return {
            (first, second): np.zeros((sizes[first], len(self._directions[second])))
            if block is None
            else block
            for (first, second), block in blocks.items()
        }

    def _weights(self, right: Mapping[tuple[str, str], Array | None], mode: Mode) -> Weights | None:
        """How far rounding moves the second derivatives, and of which entries the gradient itself
        is in doubt. None where the layer does not run at other numbers."""
        own = self._filled(right)
        rng = np.random.default_rng([self.problem.seed, 31])
        move = move_of(self.highest.dtype)
        changes = self._changes(own, mode, move, DRAWS, rng)
        stir = STIR * FORMATS[self.highest.dtype].unit_roundoff
        stirred = self._changes(own, mode, stir, STIRRED, rng)
        if changes is None or stirred is None:
            return None
        unit = FORMATS[self.problem.dtype].unit_roundoff
        with np.errstate(all="ignore"):
            costs = {
                key: np.sqrt(np.mean((change / move) ** 2, axis=0)) * unit
                for key, change in changes.items()
            }
        return Weights(
            {key: np.where(np.isfinite(cost), cost, 0.0) for key, cost in costs.items()},
            {key: np.max(change, axis=0) for key, change in stirred.items()},
            self._doubtful(),
        )

    def _changes(
        self, own: Blocks, mode: Mode, move: float, draws: int, rng: np.random.Generator
    ) -> Blocks | None:
        """How far each block moves, (draws, ...), when all numbers move by that part of
        themselves."""
        found: dict[tuple[str, str], list[Array]] = {key: [] for key in own}
        for _ in range(draws):
            values = {
                leaf.name: stirred(leaf, move, rng)
                for leaf in self._moving
                if leaf.role != "captured"
            }
            moved = self.bind(self.highest.dtype, values)
            if moved is None:
                return None
            try:
                there = self._filled(self._blocks(moved, mode))
            finally:
                moved.close()
            for key, block in own.items():
                with np.errstate(all="ignore"):
                    change = np.abs(there[key] - block)
                found[key].append(np.where(np.isfinite(change), change, 0.0))
        return {key: np.stack(change) for key, change in found.items()}

    def _doubtful(self) -> dict[str, Array]:
        """Entries of the gradient that is differentiated which are contradicted; of large layers
        none is looked for."""
        if not self._whole:
            return {}
        return self._truth().doubtful(dict(self._pushed()))

    def _pushed(self) -> Iterator[tuple[str, Array]]:
        """The gradient by forward mode, of the leaves that it reaches."""
        for leaf in self._leaves:
            units = np.eye(leaf.size).reshape(leaf.size, *leaf.value.shape)
            try:
                parts = [self.highest.jvp({leaf.name: unit}) for unit in units]
            except Exception:  # without a forward mode differences of the value decide alone
                continue
            yield (
                leaf.name,
                np.array([0.0 if part is None else float(self._row @ part) for part in parts]),
            )

    def _truth(self) -> SecondTruth:
        problem = self.problem
        bounds = {n: (e.low, e.high) for n, e in problem.spec.points[problem.point].items()}
        return SecondTruth(
            self.highest, self._row, self._directions, bounds, problem.dtype, self.doubt
        )

    # The judge

    def _case(
        self,
        mode: Mode,
        mine: Mapping[tuple[str, str], Array | None],
        right: Mapping[tuple[str, str], Array | None],
        weights: Weights | None,
        started: float,
    ) -> Case:
        problem, narrow = self.problem, self.narrow
        blocks, reasons = self._truth().blocks(self._filled(right), weights)
        output = self.highest.value({})
        rows = None if output_shape(narrow) == () else self._row[None]
        columns = None if self._whole else {_plain(n): d for n, d in self._directions.items()}
        spec = replace(with_layer(problem, narrow), wrt=tuple(leaf.name for leaf in self._leaves))
        wide: dict[tuple[str, str], Evaluation] = {}
        if self.highest is not narrow:
            wide[self.name, mode] = self._evaluation(self.highest, right, mode)
        evaluation = replace(
            self._evaluation(narrow, mine, mode),
            backward=2 * sum(len(directions) for directions in self._directions.values()),
            duration_s=time.perf_counter() - started,
        )
        return Case(
            spec=replace(spec, wrt=tuple(_plain(name) for name in spec.wrt)),
            point=problem.point if problem.spec.pointed else None,
            dtype=problem.dtype,
            values={_plain(leaf.name): leaf.value for leaf in narrow.leaves},
            projections={mode: Projection(rows, columns)},
            evaluations=(evaluation,),
            truth=Truth(
                dtype=problem.dtype,
                output=output,
                output_error=from_size(output, 16, self.highest.dtype),
                blocks={(mode, _block_name(key)): block for key, block in blocks.items()},
                reasons={(mode, _block_name(key)): reason for key, reason in reasons.items()},
            ),
            wide=wide,
            named=frozenset({self.name} if problem.named else ()),
            named_modes=frozenset(problem.modes if problem.named_modes else ()),
            seed=problem.seed,
        )

    def _evaluation(
        self, subject: Subject, blocks: Mapping[tuple[str, str], Array | None], mode: Mode
    ) -> Evaluation:
        return Evaluation(
            engine=self.name,
            dtype=subject.dtype,
            rounding=self.problem.dtype,
            mode=mode,
            output=subject.value({}).reshape(output_shape(subject)),
            gradients={_block_name(key): Gradient(block) for key, block in blocks.items()},
        )

    def _with_never_filled(self, case: Case, mode: Mode) -> Case:
        """The case with 0 as what the backward states, where its derivative is zero wherever one
        looks and should not be: where JAX has nothing to differentiate it gives zeros."""

        def there(values: Mapping[str, Array]) -> Mapping[str, Array | None]:
            captured = {leaf.name for leaf in self._moving if leaf.role == "captured"}
            bound = self.bind(
                self.narrow.dtype, {n: value for n, value in values.items() if n not in captured}
            )
            if bound is None:
                return {}
            try:
                found = self._blocks(bound, mode)
                return {_block_name(key): block for key, block in found.items()}
            finally:
                bound.close()

        return with_zeros_stated(case, mode, there, self.narrow.leaves)

    def _with_other_precision(self, case: Case, mode: Mode) -> Case:
        other = self.bind("float32", {})
        if other is None:
            return case
        try:
            blocks = self._blocks(other, mode)
            return replace(case, wide={(self.name, mode): self._evaluation(other, blocks, mode)})
        except Exception:
            return case
        finally:
            other.close()

    def _not_again(
        self, error: Exception, mode: Mode
    ) -> tuple[tuple[Check, ...], tuple[Finding, ...]]:
        """The backward itself could not be differentiated."""
        point = self.problem.point if self.problem.spec.pointed else None
        words = (str(error).strip() or type(error).__name__).splitlines()[0]
        found = Finding(
            code=Codes.WRONG_SECOND_DERIVATIVE,
            severity=CODES[Codes.WRONG_SECOND_DERIVATIVE].severity,
            message=f"the gradient cannot be differentiated again: {words}",
            span=self.problem.implementation.span,
            engine=self.name,
            dtype=self.problem.dtype,
            mode=mode,
            point=point,
            detail=short_traceback(error),
        )
        checks = tuple(
            Check(self.name, self.problem.dtype, mode, f"{a.name}.{b.name}", "failed", point)
            for a in self._leaves
            for b in self._leaves
        )
        return checks, (found,)


def _plain(name: str) -> str:
    """A block is named "a.b": the names of parameters must not have dots of their own."""
    return name.replace(".", "_")


def _block_name(key: tuple[str, str]) -> str:
    return f"{_plain(key[0])}.{_plain(key[1])}"
