"""Judge the entries of a large Jacobian that a search has named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

import numpy as np

from gradcheck_cli.checks.bound_layer import BoundLayer, is_complex, output_shape
from gradcheck_cli.checks.causes.traced_entry import TracedEntry
from gradcheck_cli.checks.certified.rounding import RoundingOutliers
from gradcheck_cli.checks.unfilled_entries import never_filled, suspicious
from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS, Array, Values
from gradcheck_cli.domain.evaluation import Evaluation, Gradient, Projection
from gradcheck_cli.domain.indices import index_of
from gradcheck_cli.domain.layer import Leaf, as_program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Finding, Indexing, Pass
from gradcheck_cli.domain.thresholds import OPERATIONS
from gradcheck_cli.domain.truth import PointKind, Truth, TruthBlock
from gradcheck_cli.engines.layer.subject import Call, Subject
from gradcheck_cli.explain.blame.patterns import axis_sizes, name_pattern
from gradcheck_cli.judge import judge
from gradcheck_cli.truth.blocks import Differences, merge
from gradcheck_cli.truth.layers.absorption import ABSORBED, absorbed
from gradcheck_cli.truth.layers.bisect_entries import Search, at_rows
from gradcheck_cli.truth.layers.callables import own_size, ulp_perturbed
from gradcheck_cli.truth.layers.corners import cornered, has_corner
from gradcheck_cli.truth.layers.precisions import without_rounded
from gradcheck_cli.truth.layers.projections import Projections
from gradcheck_cli.truth.layers.safe_values import values_of
from gradcheck_cli.truth.layers.weighing import contradicted, left_open
from gradcheck_cli.truth.numerics.differences import Float
from gradcheck_cli.truth.numerics.directions import Slope
from gradcheck_cli.truth.numerics.noise import from_size

OF_THE_ENGINE = (
    Codes.WRONG_GRADIENT,
    Codes.NAN_GRADIENT,
    Codes.INFINITE_GRADIENT,
    Codes.PRECISION_LOSS,
    Codes.UNDERFLOW_TO_ZERO,
)


@dataclass
class Columns:
    """Entries of one leaf: their places (c,), and for each either the slope of the part's rows
    along it, or the right gradient, the cost of rounding, and how far rounding the inputs moves it,
    (r, c)."""

    leaf: Leaf
    flat: list[int]
    slopes: list[Slope] = field(default_factory=list)
    narrow: Float | None = None
    right: Float | None = None
    cost: Float | None = None
    moved: Float | None = None
    looked_at: tuple[int, int] | None = None
    alike: int = 0
    whole: tuple[float, float] | None = None
    """The product with a direction of all entries: by the gradient, and by differences."""


@dataclass
class Part:
    """Part of a Jacobian. `rows` (r, m) are unit vectors of `outputs`, or a cotangent if it is
    None. Slopes are finite differences, or come from an enclosed program named by `origin`."""

    rows: Float
    outputs: list[int] | None
    columns: dict[str, Columns] = field(default_factory=dict)
    origin: str = ""

    @classmethod
    def of_search(cls, search: Search, outputs: list[int], origin: str = "") -> Part:
        """The columns that a search has found, in these outputs, or else in its cotangent."""
        size = search.row.size
        rows = np.zeros((len(outputs), size))
        rows[np.arange(len(outputs)), outputs] = 1.0
        part = cls(rows if outputs else search.row[None], outputs or None, origin=origin)
        for column in search.columns:
            mine = part.columns.setdefault(column.leaf.name, Columns(column.leaf, []))
            if outputs:
                slope = at_rows(column.slope, outputs)
            elif column.slope.estimate.value.size == 1:
                slope = column.slope
            else:
                rough = bool(np.any(column.slope.sides.kind != PointKind.SMOOTH))
                slope = at_rows(column.slope, [0]) if rough else _product(column.slope, search.row)
            mine.flat.append(column.flat)
            mine.slopes.append(slope)
            mine.alike += column.alike
            mine.looked_at = search.dense.get(column.leaf.name)
        for columns in part.columns.values() if not origin else ():
            columns.whole = search.whole_difference(columns.leaf)
        return part

    @classmethod
    def of_entries(cls, truth: Projections, leaf: Leaf, flat: Array) -> Part:
        """Some entries of a leaf with careful differences, for the first cotangent."""
        rows = truth.rows[:1]
        slopes = [truth.column(leaf, int(place), rows) for place in flat]
        columns = Columns(leaf, [int(place) for place in flat], slopes)
        return cls(rows, None, {leaf.name: columns})

    @classmethod
    def of_rounding(cls, off: RoundingOutliers, row: Float) -> Part:
        """Entries of a confirmed product that are off in the narrow dtype."""
        columns = Columns(
            off.leaf,
            [int(place) for place in off.flat],
            narrow=off.narrow[None],
            right=off.wide[None],
            cost=off.cost[None],
            moved=off.moved[None],
        )
        return cls(row[None], None, {off.leaf.name: columns})


def _product(slope: Slope, row: Float) -> Slope:
    """The slope of row @ F from the slope of F, which must be smooth."""
    found = at_rows(slope, [0])
    found.estimate.value[:] = row @ slope.estimate.value
    found.estimate.error[:] = np.abs(row) @ slope.estimate.error
    found.steepest[:] = np.abs(row) @ slope.steepest
    return found


@dataclass
class JudgedPart:
    """The result of judging a part: `findings` with the indices and counts of the whole gradient,
    the entry that each finding is about (`traced`), and by leaf the rules by which entries passed.
    `harmless`: all findings are kinks and the like, which are handled elsewhere."""

    findings: list[Finding] = field(default_factory=list)
    traced: dict[Finding, TracedEntry] = field(default_factory=dict)
    passed: dict[str, tuple[Pass, ...]] = field(default_factory=dict)

    def decided(self) -> JudgedPart:
        """The result without undecided entries."""
        return JudgedPart(
            [finding for finding in self.findings if finding.code != Codes.UNDECIDED],
            self.traced,
            {
                name: tuple(one for one in passes if one.rule != "undecided")
                for name, passes in self.passed.items()
            },
        )

    @property
    def harmless(self) -> bool:
        return bool(self.findings) and all(
            finding.code not in OF_THE_ENGINE for finding in self.findings
        )


def judged_part(layer: BoundLayer, part: Part, more: bool, many: int | None = None) -> JudgedPart:
    """Judge the part's entries. `more`: others may be wrong, too; `many` is their number, if
    known."""
    narrow = _gradients(layer.narrow, part)
    wide, again, dtype = _in_other_precisions(layer, part, narrow)
    blocks = {
        name: _certified(columns) if part.origin else _block(columns, wide[name], layer, part.rows)
        for name, columns in part.columns.items()
    }
    if not _is_known(part):
        blocks = _with_never_filled(layer, part, narrow, blocks)
    checks, findings = judge(_case(layer, part, narrow, blocks, again, dtype))
    judged = JudgedPart(passed={check.input: check.passed_by for check in checks})
    for finding in findings:
        if finding.input is None:
            continue
        told = _as_of_the_whole(layer, part, finding, narrow, blocks, more, many)
        judged.findings.append(told)
        if finding.entries:
            row, column = finding.entries[0].index
            flat = part.columns[finding.input].flat[column]
            judged.traced[told] = TracedEntry(part.rows[row], finding.input, flat)
    return judged


def _in_other_precisions(
    layer: BoundLayer, part: Part, narrow: dict[str, Float]
) -> tuple[dict[str, Float], dict[str, Float], str]:
    """The part's gradients in the highest precision; and in one that tells an error from rounding,
    which is named. If there is no other, they are computed after moves of a few ulps."""
    if _is_known(part):
        right = {name: c.right for name, c in part.columns.items() if c.right is not None}
        return right, right, layer.highest.dtype
    if layer.highest is not layer.narrow:
        wide = _gradients(layer.highest, part)
        return wide, wide, layer.highest.dtype
    with layer.coarser() as other:
        if other is not None:
            return narrow, _gradients(other, part), other.dtype
    anew = _gradients(layer.narrow, part, ulp_perturbed(layer.narrow))
    return narrow, anew, layer.narrow.dtype


def _is_known(part: Part) -> bool:
    """Whether the gradient is already confirmed and only rounding is in question."""
    return all(columns.right is not None for columns in part.columns.values())


def _with_never_filled(
    layer: BoundLayer, part: Part, narrow: Mapping[str, Float], blocks: Mapping[str, TruthBlock]
) -> dict[str, TruthBlock]:
    """The blocks with 0 as the layer's derivative (`stated`) where its backward is always 0."""
    zeros = {name: suspicious(g, blocks[name]) for name, g in narrow.items()}
    zeros = {name: zero for name, zero in zeros.items() if np.any(zero)}
    if not zeros:
        return dict(blocks)

    def pulled(values: Values) -> Values:
        return _gradients(layer.narrow, part, values)

    never = never_filled(zeros, pulled, layer.narrow.leaves, layer.problem.seed)
    return {
        name: block.at(never[name], stated=0.0) if name in never else block
        for name, block in blocks.items()
    }


def _gradients(subject: Subject, part: Part, values: Values | None = None) -> dict[str, Float]:
    """rows @ J at the part's entries, (r, c) for each leaf; zeros if there is no gradient. `values`
    has other values for some leaves."""
    if _is_known(part):
        return {
            name: columns.narrow
            for name, columns in part.columns.items()
            if columns.narrow is not None
        }
    found = {name: np.zeros((len(part.rows), len(c.flat))) for name, c in part.columns.items()}
    for place, row in enumerate(part.rows):  # one by one, because each may be large
        ran = subject.run(Call(values or {}, row[None]))
        for name, columns in part.columns.items():
            gradient = ran.gradients.get(name)
            if gradient is not None:
                found[name][place] = gradient[0][columns.flat]
    return found


def contradicts(subject: Subject, part: Part) -> bool:
    """Whether a slope of the part contradicts the subject's gradient there."""
    gradients = _gradients(subject, part)
    apart = (
        np.abs(gradients[name][:, place] - slope.estimate.value) > slope.estimate.error
        for name, columns in part.columns.items()
        for place, slope in enumerate(columns.slopes)
    )
    return any(map(np.any, apart))


def _certified(columns: Columns) -> TruthBlock:
    assert columns.cost is not None
    value, error, size = (
        np.stack(parts, axis=1)
        for parts in zip(
            *((s.estimate.value, s.estimate.error, s.steepest) for s in columns.slopes), strict=True
        )
    )
    costs = dict.fromkeys(
        ("condition", "allowance", "floor"), np.broadcast_to(columns.cost, value.shape)
    )
    certified = np.ones(value.shape, np.bool_)
    return TruthBlock.of(value, error, scale=size, certified=certified, **costs)


def _block(columns: Columns, wide: Float, layer: BoundLayer, rows: Float) -> TruthBlock:
    highest = layer.highest
    own = FORMATS[highest.dtype]
    zeros = np.zeros(wide.shape)
    ulp = FORMATS[layer.problem.dtype].ulp(wide)
    spread = 4 * own.ulp(wide)
    if columns.right is not None and columns.cost is not None:
        right, cost = columns.right, columns.cost
        return TruthBlock.of(
            right,
            4 * own.ulp(right),
            condition=cost if columns.moved is None else np.fmax(cost, columns.moved),
            allowance=cost,
            floor=cost,
            scale=zeros,  # a residue that is no error is in the cost
            confirmed=np.ones(right.shape, dtype=np.bool_),
        )
    found = Differences.empty(*wide.shape)
    for place, slope in enumerate(columns.slopes):
        found.put(place, slope)
    merged = merge(wide, spread, found, True, ulp, lambda: (zeros, zeros))
    at = columns.leaf.name, columns.flat
    if highest.digits == "float64":
        here = {leaf.name: np.asarray(leaf.value) for leaf in highest.leaves}
        several = partial(products_at, highest, rows)
        seed = layer.problem.seed
        if np.any(contradicted(merged, wide, found)) and has_corner(several, here, seed):
            merged = cornered(merged, wide, found, several, here, at, seed)
    sizes = own_size(columns.leaf.kept.reshape(-1)[columns.flat])
    off = contradicted(merged, wide, found)
    merged = left_open(merged, absorbed(highest, rows, sizes, wide, found.value, off), ABSORBED)
    merged = without_rounded(merged, at, wide, found, highest, layer.coarser, rows)
    return merged.block(found, scale=found.steepest)


def products_at(subject: Subject, rows: Float, many: Sequence[Values]) -> Array:
    """rows @ y at several points, (k, r), one after the other, because y may be large."""
    count = rows.shape[1]
    return np.stack([rows @ values_of(subject, [values], count)[0] for values in many])


def _case(
    layer: BoundLayer,
    part: Part,
    narrow: Mapping[str, Float],
    blocks: Mapping[str, TruthBlock],
    again: Mapping[str, Float],
    dtype: str,
) -> Case:
    """The part as a case of its own, with flat leaves that have only these entries, and one output
    for each row. `again` has the gradients in `dtype`."""
    problem = layer.problem
    count = len(part.rows)
    shapes = {name: (len(columns.flat),) for name, columns in part.columns.items()}
    program = as_program(problem.implementation, shapes, (count,))

    def evaluation(dtype: str, gradients: Mapping[str, Float]) -> Evaluation:
        return Evaluation(
            engine=layer.name,
            dtype=dtype,
            rounding=problem.dtype,
            mode=layer.narrow.mode,
            output=np.zeros(count),
            gradients={name: Gradient(g) for name, g in gradients.items()},
        )

    mode = layer.narrow.mode
    units = {name: np.eye(len(columns.flat)) for name, columns in part.columns.items()}
    truth = Truth(
        dtype=problem.dtype,
        output=np.zeros(count),
        output_error=np.zeros(count),
        blocks={(mode, name): block for name, block in blocks.items()},
        origin=part.origin,
    )
    case = layer.case(
        {mode: Projection(part.rows, units)},
        (evaluation(problem.dtype, narrow),),
        truth,
        {(layer.name, mode): evaluation(dtype, again)},
    )
    return replace(
        case,
        spec=replace(problem.spec, program=program, wrt=tuple(part.columns)),
        values={
            n: c.leaf.kept.reshape(-1)[c.flat].astype(np.float64) for n, c in part.columns.items()
        },
    )


def _as_of_the_whole(
    layer: BoundLayer,
    part: Part,
    finding: Finding,
    narrow: Mapping[str, Float],
    blocks: Mapping[str, TruthBlock],
    more: bool,
    many: int | None,
) -> Finding:
    """The finding with the indices of the whole Jacobian, and a message about the part examined."""
    assert finding.input is not None
    columns = part.columns[finding.input]
    leaf = columns.leaf
    entries = tuple(
        replace(entry, index=_index(layer, part, columns, entry.index)) for entry in finding.entries
    )
    said = finding.message.partition(": ")[2]
    count = len(finding.entries) + finding.more
    of_products = part.outputs is None or (part.origin and many is not None and many > count)
    total = leaf.size if of_products else leaf.size * part.rows.shape[1]
    if columns.looked_at is not None:
        wrong, looked = columns.looked_at
        which = f"{wrong} of {looked} examined entries of the gradient of `{leaf.name}`"
        which += f" (which has {leaf.size})"
    elif many is not None and many > count:
        which = f"{many} of {total} entries of the gradient of `{leaf.name}`"
    else:
        which = f"{count} of {total} entries of the gradient of `{leaf.name}`"
    if columns.alike and finding.code not in OF_THE_ENGINE:
        noun, were = ("entry", "was") if columns.alike == 1 else ("entries", "were")
        said += f"; {columns.alike} more {noun} with the same value {were} assumed to be alike"
    if more and finding.code in OF_THE_ENGINE:
        said += "; there may be more"
    pattern = finding.pattern
    if finding.code in (Codes.WRONG_GRADIENT, Codes.PRECISION_LOSS):
        g, block = narrow[finding.input], blocks[finding.input]
        pattern = _pattern(layer, columns, g, block.value)
    return replace(
        finding,
        message=f"{which}: {said}",
        indexing=_indexing(layer, part, leaf.is_complex),
        span=layer.problem.implementation.span,
        entries=entries,
        more=max(finding.more, 0 if many is None else many - len(entries)),
        pattern=pattern,
    )


def _pattern(layer: BoundLayer, columns: Columns, g: Float, right: Float) -> str | None:
    """The pattern of the examined entries, if the sum over all other entries has it, too."""
    fmt, count = FORMATS[layer.problem.dtype], len(columns.flat)
    sizes = axis_sizes({leaf.name: leaf.shape for leaf in layer.narrow.leaves})
    if columns.whole is not None:
        g, right = (
            np.append(of, whole) for of, whole in zip((g, right), columns.whole, strict=True)
        )
        count = g.size
    return name_pattern(g.reshape(-1, count), right.reshape(-1, count), (count,), fmt, sizes, tuple)


def _indexing(layer: BoundLayer, part: Part, complex_input: bool) -> Indexing:
    if part.outputs is None:
        cotangents = part.rows.shape[1] > 1
        return Indexing(0, cotangents=cotangents, complex_input=complex_input)
    return Indexing(
        len(output_shape(layer.narrow)),
        complex_output=is_complex(layer.narrow),
        complex_input=complex_input,
    )


def _index(
    layer: BoundLayer, part: Part, columns: Columns, index: tuple[int, ...]
) -> tuple[int, ...]:
    row, flat = index
    shape = columns.leaf.shape
    place = index_of(columns.flat[flat], shape)
    if part.outputs is None:
        return place
    output = output_shape(layer.narrow)
    left = index_of(part.outputs[row], output)
    return (*left, *place)


def output_findings_of(layer: BoundLayer, value: Float, right: Float) -> Iterator[Finding]:
    """Findings about the value alone; `right` is the value in the highest precision."""
    problem = layer.problem
    evaluation = Evaluation(layer.name, problem.dtype, problem.dtype, "reverse", output=value)
    truth = Truth(
        dtype=problem.dtype,
        output=right,
        output_error=from_size(right, OPERATIONS, layer.highest.dtype),
        blocks={},
    )
    case = layer.case({"reverse": Projection()}, (evaluation,), truth, {})
    program = as_program(problem.implementation, {}, value.shape)
    spec = replace(problem.spec, program=program, wrt=())
    yield from judge(replace(case, spec=spec))[1]
