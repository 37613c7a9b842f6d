"""The plan of a run: turns a spec and the options into problems for engines, and requests for the
truth."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import product
from zlib import crc32

from gradcheck_cli.domain.case import Case, TruthRequest
from gradcheck_cli.domain.dtypes import COMPLEX, FORMATS, Array, FloatFormat, parts_of
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.evaluation import (
    COMPOSED,
    FIRST_ORDER,
    Evaluation,
    Failure,
    Mode,
    Problem,
    Projection,
    TrainingProblem,
    modes_in,
    order_of,
)
from gradcheck_cli.domain.layer import POWER, LayerProblem
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.placement import HOST, Placement, placement
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass, replace
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.domain.synonyms import did_you_mean
from gradcheck_cli.engines.devices import require
from gradcheck_cli.engines.registry import Registered, default_engines
from gradcheck_cli.run.directions import direction_along, kind_of, pairs_are_few, projection_of
from gradcheck_cli.run.workers.memory import usual_limit

DTYPES = ("float32", "float64")
TIMEOUT_S = 60.0
TRUTH_TIMEOUT_S = 60.0  # the truth of a spec is not cut short by a small limit for its engines


@dataclass(frozen=True, slots=True)
class PointPlan:
    """One spec at one point in one dtype: the problems for every engine, and the request for the
    truth.

    `case` is what is known before any problem is solved: evaluations that say why an engine that
    was named cannot do something. `illustrated`: this point is the one with pictures.
    """

    case: Case
    problems: Mapping[str, tuple[Problem, ...]]
    truth: TruthRequest
    illustrated: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is requested for one spec. `trainings` has one problem per dtype. `without`
    are the engines that cannot compute on the device of `placement`."""

    spec: Spec
    engines: tuple[str, ...]
    named: frozenset[str]
    dtypes: tuple[str, ...]
    modes: tuple[Mode, ...]
    named_modes: frozenset[str]
    timeout: float
    memory: float  # gigabytes
    seed: int
    placement: Placement
    without: frozenset[str]
    looks: tuple[PointPlan, ...] = ()
    trainings: tuple[TrainingProblem, ...] = ()
    layers: tuple[LayerProblem, ...] = ()
    notes: tuple[str, ...] = ()

    def placement_of(self, engine: str) -> Placement:
        return HOST if engine in self.without else self.placement


def placed(spec: Spec | None, options: RunOptions) -> Placement:
    """Where a spec is to be computed. If `spec` is None: what holds before any spec is read."""
    device = options.device.resolve(spec.device if spec else None, HOST.device)
    return placement(device, (spec and spec.matmul_precision) or HOST.matmul)


def make_plan(spec: Spec, options: RunOptions, registered: Mapping[str, Registered]) -> Plan:
    """The plan of a spec. Raises UsageError if an engine, dtype or device that was named is unknown
    or not available."""
    engines, named = choose_engines(spec, options, registered)
    where = placed(spec, options)
    require(where)
    dtypes = _dtypes(spec, options)
    modes = options.modes.resolve(spec.modes, ())
    requested = _asked_modes(spec, modes)
    plan = Plan(
        spec=spec,
        engines=engines,
        named=named,
        dtypes=dtypes,
        modes=requested,
        named_modes=frozenset(requested) if modes else frozenset(),
        timeout=options.timeout.resolve(spec.timeout, TIMEOUT_S),
        memory=options.memory.resolve(spec.memory, usual_limit()),
        seed=options.seed,
        placement=where,
        without=frozenset(name for name in engines if not _computes(registered[name], where)),
    )
    if spec.implementations:
        return _with_layers(plan, options)
    return _with_looks(plan, {name: registered[name] for name in engines}, options)


def _dtypes(spec: Spec, options: RunOptions) -> tuple[str, ...]:
    """The dtypes of the computation; for complex dtypes, the dtypes of their parts. Raises
    UsageError."""
    dtypes = options.dtypes.resolve(spec.dtypes, DTYPES)
    is_complex = any(one.is_complex for one in spec.inputs.values())
    for dtype in dtypes:
        if dtype not in FORMATS and dtype not in COMPLEX:
            raise UsageError(f"unknown dtype `{dtype}`", _nearest(dtype, [*FORMATS, *COMPLEX]))
        if is_complex and parts_of(dtype) not in COMPLEX.values():
            raise UsageError(
                f"`{spec.name}` has complex inputs, so it cannot be checked in {dtype}",
                "complex64 and complex128 have parts of float32 and float64",
            )
        if dtype in COMPLEX and not is_complex:
            raise UsageError(
                f"`{spec.name}` has no complex input, so it cannot be checked in {dtype}",
                "`dtypes: [complex64, complex128]` in the spec makes its inputs complex",
            )
    return tuple(dict.fromkeys(map(parts_of, dtypes)))


def _with_looks(plan: Plan, engines: Mapping[str, Registered], options: RunOptions) -> Plan:
    """The plan of a formula: every engine differentiates it at each point in each dtype, and runs
    its training."""
    spec, here = plan.spec, set(plan.engines) - plan.without
    notes = dict.fromkeys(device_notes(plan.placement, here))  # in order, each once
    looks = []
    for point in range(len(spec.points)):
        for dtype in plan.dtypes:
            look, left_out = _look(plan, point, dtype, engines, options)
            drawn = options.illustrated and not point and dtype == _widest(plan)
            looks.append(replace(look, illustrated=drawn))
            notes.update(dict.fromkeys(left_out))
    for point, dtype in product(range(len(spec.points)), plan.dtypes if spec.order > 2 else ()):
        third, left_out = _third_look(plan, point, dtype, engines, options)
        looks += third
        notes.update(dict.fromkeys(left_out))
    if spec.train and len(spec.points) > 1:
        notes[f"the training path starts at points[0], the first of {len(spec.points)}"] = None
    trainings = tuple(_training_problem(spec, dtype) for dtype in plan.dtypes) if spec.train else ()
    return replace(plan, looks=tuple(looks), trainings=trainings, notes=tuple(notes))


def _widest(plan: Plan) -> str:
    """The dtype with the most digits, in which pictures are made."""
    return max(plan.dtypes, key=lambda dtype: FORMATS[dtype].bits)


def cpu_only(engine: str, plan: Plan) -> str:
    """The message about an engine that cannot compute on the device of the plan."""
    return f"{engine} runs on the CPU only; the device `{plan.placement.device}` is not supported"


def placement_for(found: Registered, where: Placement) -> Placement:
    """Where an engine computes what is placed there: an engine without such a device, on the
    CPU."""
    return where if _computes(found, where) else HOST


def _computes(found: Registered, where: Placement) -> bool:
    """Whether the engine computes on this device."""
    return found.engine is not None and where.kind in found.engine.capabilities.devices


def device_notes(where: Placement, there: Collection[str]) -> list[str]:
    """Notes about the device on which a spec was computed. The engines in `there` compute on it."""
    if where == HOST or not there:
        return []
    return [f"computed on {where.device}; float32 products in {where.matmul} precision"]


def _with_layers(plan: Plan, options: RunOptions) -> Plan:
    """The plan of layers: the engine of each layer checks it at each point in each dtype, and then
    its behaviour."""
    spec = plan.spec
    problems = tuple(
        LayerProblem(
            spec=spec,
            implementation=implementation,
            point=point,
            dtype=dtype,
            modes=plan.modes,
            named=implementation.engine in plan.named,
            named_modes=bool(plan.named_modes),
            named_dtype=bool(options.dtypes.resolve(spec.dtypes, ())),
            power=options.power.resolve(spec.power, POWER),
            seed=options.seed,
            device=plan.placement.device,
            illustrated=options.illustrated and not point and dtype == _widest(plan),
        )
        for implementation in spec.implementations
        if implementation.engine in plan.engines
        for point in range(len(spec.points))
        for dtype in plan.dtypes
    )
    first = {problem.implementation.engine: problem for problem in reversed(problems)}
    problems += tuple(replace(problem, behaviour=True) for problem in first.values())
    engines = dict.fromkeys(problem.implementation.engine for problem in problems)
    return replace(
        plan,
        engines=tuple(engines),
        layers=problems,
        notes=(
            *([] if problems else [not_implemented(spec, plan.engines)]),
            *device_notes(plan.placement, set(engines) - plan.without),
        ),
    )


def not_implemented(spec: Spec, engines: tuple[str, ...]) -> str:
    """The message if no layer is implemented for any requested engine."""
    there = dict.fromkeys(implementation.engine for implementation in spec.implementations)
    return (
        f"`implementations` has a layer for {', '.join(there)}, but none for {', '.join(engines)}"
    )


def choose_engines(
    spec: Spec | None, options: RunOptions, registered: Mapping[str, Registered]
) -> tuple[tuple[str, ...], frozenset[str]]:
    """The engines of a spec, and which of them were named. Raises UsageError."""
    names = options.engines.resolve(spec.engines if spec else None, ())
    if not names and spec is not None and spec.implementations:
        names = tuple(implementation.engine for implementation in spec.implementations)
    if not names:
        here = (name for name in default_engines(registered) if registered[name].installed)
        return tuple(here), frozenset()
    lacks = [lack for name in dict.fromkeys(names) for lack in lacking(name, registered)]
    if len(lacks) == 1:
        raise UsageError(*lacks[0])
    if lacks:
        raise UsageError("; ".join(f"{what} ({help})" if help else what for what, help in lacks))
    return tuple(dict.fromkeys(names)), frozenset(names)


def lacking(name: str, registered: Mapping[str, Registered]) -> list[tuple[str, str]]:
    """The reasons why a named engine cannot run, each with a remedy."""
    entry = registered.get(name)
    if entry is None:
        return [(f"unknown engine `{name}`", _nearest(name, list(registered)))]
    if entry.engine is None:
        return [(f"the engine `{name}` cannot be used: {entry.fault}", "")]
    if entry.version is None:
        return [(f"the engine `{name}` is not installed", entry.install)]
    return [
        (f"the engine `{name}` needs {what}, but there is none", install)
        for what, install in entry.missing
    ]


def _nearest(name: str, valid: list[str]) -> str:
    return did_you_mean(name, valid) or f"known: {', '.join(valid)}"


def _asked_modes(spec: Spec, stated: tuple[str, ...]) -> tuple[Mode, ...]:
    first: list[Mode] = [mode for mode in FIRST_ORDER if mode in (stated or FIRST_ORDER)]
    higher = [
        mode
        for mode, parts in COMPOSED.items()
        if set(parts) <= set(first) and len(parts) <= spec.order
    ]
    return (*first, *higher)


@dataclass(frozen=True, slots=True)
class _Function:
    """What is differentiated once or twice in these `modes`: the formula, or its derivative `along`
    a direction, which is then `program`."""

    program: Program
    values: Mapping[str, Array]
    modes: tuple[Mode, ...]
    along: Mapping[str, Array] | None = None


def _look(
    plan: Plan, index: int, dtype: str, engines: Mapping[str, Registered], options: RunOptions
) -> tuple[PointPlan, list[str]]:
    """The problem of first and second derivatives at one point, and notes about what is left
    out."""
    modes = tuple(mode for mode in plan.modes if order_of(mode) < 3)
    function = _Function(plan.spec.program, _values(plan.spec, index, dtype), modes)
    return _look_at(function, plan, index, dtype, engines, options)


def _third_look(
    plan: Plan, index: int, dtype: str, engines: Mapping[str, Registered], options: RunOptions
) -> tuple[list[PointPlan], list[str]]:
    """The problem of third derivatives: second derivatives of the derivative along a direction. If
    there is none, the notes say why."""
    from gradcheck_cli.truth.formulas.directional_program import NoDirectional, directional

    spec, values = plan.spec, _values(plan.spec, index, dtype)
    source = (plan.seed, crc32(spec.name.encode()), index)
    along = direction_along(spec, values, FORMATS[dtype], source)
    try:
        found = directional(spec.program, values, along, dtype)
    except NoDirectional as why:
        return [], [f"third derivatives are not checked: {why}"]
    modes = tuple(mode for mode in plan.modes if order_of(mode) == 3)
    notes = []
    if sum(values[name].size for name in spec.wrt) > 1:
        notes.append("third derivatives are taken along one random direction of all inputs")
    function = _Function(found.program, {**values, **found.constants}, modes, along)
    look, left_out = _look_at(function, plan, index, dtype, engines, options)
    return [look], [*notes, *left_out]


def _values(spec: Spec, index: int, dtype: str) -> dict[str, Array]:
    """The inputs at a point, rounded to the dtype."""
    fmt = FORMATS[dtype]
    return {name: _rounded(entry.value, fmt) for name, entry in spec.points[index].items()}


def _look_at(
    function: _Function,
    plan: Plan,
    index: int,
    dtype: str,
    engines: Mapping[str, Registered],
    options: RunOptions,
) -> tuple[PointPlan, list[str]]:
    spec, values = plan.spec, function.values
    inputs = spec.points[index]
    case = Case(
        spec=replace(spec, program=function.program),
        point=index if spec.pointed else None,
        dtype=dtype,
        values=values,
        projections=_projections(plan, index, function, FORMATS[dtype]),
        evaluations=(),
        truth=None,
        named=plan.named,
        named_modes=plan.named_modes,
        seed=plan.seed,
        along=function.along or {},
        stages={name: found.stages for name, found in engines.items()},
    )
    problems: dict[str, tuple[Problem, ...]] = {}
    refused: list[Evaluation] = []
    notes: list[str] = []
    for name, found in engines.items():
        reasons = {mode: _reason_against(plan, found, dtype, mode) for mode in function.modes}
        problems[name] = tuple(
            case.problem(
                mode, program=spec.program, along=function.along, difference=options.difference
            )
            for mode, (reason, _) in reasons.items()
            if not reason
        )
        without: dict[str, list[str]] = {}
        for mode, (reason, left_out) in reasons.items():
            # whoever named an engine requested something: not every mode can be left out
            named = plan.named_modes or (name in plan.named and not (left_out and problems[name]))
            if reason and named:
                failure = Failure("unsupported", reason)
                refused.append(Evaluation(name, dtype, dtype, mode, failure=failure))
            elif reason and mode in FIRST_ORDER:
                without.setdefault(reason, []).append(mode)
        for reason, modes in without.items():
            were = "were" if len(modes) > 1 else "was"
            notes.append(f"{name}: {' and '.join(modes)} mode {were} left out: {reason}")
    used = {problem.mode for mine in problems.values() for problem in mine}
    truth = TruthRequest(
        program=function.program,
        values=values,
        bounds={name: (entry.low, entry.high) for name, entry in inputs.items()},
        wrt=spec.wrt,
        dtype=dtype,
        projections={mode: p for mode, p in case.projections.items() if mode in used},
        seed=plan.seed,
    )
    return PointPlan(replace(case, evaluations=tuple(refused)), problems, truth), notes


def _projections(
    plan: Plan, index: int, function: _Function, fmt: FloatFormat
) -> dict[Mode, Projection]:
    """The directions for each mode. All compositions of a second derivative share them, so one
    truth serves all."""
    source = (plan.seed, crc32(plan.spec.name.encode()), index)
    values = function.values
    together = pairs_are_few(plan.spec, values)
    kinds = {mode: kind_of(mode, together) for mode in function.modes}
    drawn = {
        kind: projection_of(plan.spec, kind, values, fmt, source)
        for kind in dict.fromkeys(kinds.values())
    }
    return {mode: drawn[kind] for mode, kind in kinds.items()}


def _reason_against(
    plan: Plan, entry: Registered, dtype: str, mode: Mode
) -> tuple[str | None, bool]:
    """Why an engine cannot do this, or None; and whether the mode is one that the engine leaves out
    by default."""
    assert entry.engine is not None
    can = entry.engine.capabilities
    order = order_of(mode)
    if not _computes(entry, plan.placement):
        return cpu_only(entry.name, plan), False
    if dtype not in can.dtypes:
        return f"{entry.name} has no {dtype}", False
    for part in modes_in(mode):
        if part not in can.modes:
            return f"{entry.name} has no {part} mode", True
    if order not in can.orders:
        return f"{entry.name} has no derivatives of order {order}", False
    return entry.engine.refuses(plan.spec.program, mode), True


def _rounded(value: Array, fmt: FloatFormat) -> Array:
    return fmt.round(value) if value.dtype.kind == "f" else value


def _training_problem(spec: Spec, dtype: str) -> TrainingProblem:
    assert spec.train is not None
    fmt = FORMATS[dtype]
    return TrainingProblem(
        program=spec.program,
        values={name: _rounded(entry.value, fmt) for name, entry in spec.inputs.items()},
        parameters=spec.train.parameters,
        rate=spec.train.rate,
        steps=spec.train.steps,
        dtype=dtype,
        rounding=dtype,
    )
