"""Reports built by hand, with everything that a screen must show."""

from __future__ import annotations

import math
from dataclasses import replace

from gradcheck_cli.domain.place import Source, Span
from gradcheck_cli.domain.report import (
    Cause,
    Check,
    Entry,
    Finding,
    Fix,
    Reading,
    Report,
    SpecError,
    SpecResult,
    TrainingResult,
)

ENGINES = {"reference": "0.1.0", "torch": "2.13.0", "tensorflow": "2.21.0"}


def checks(
    status: str = "passed",
    *,
    engines: tuple[str, ...] = ("reference", "torch", "tensorflow"),
    dtypes: tuple[str, ...] = ("float32", "float64"),
    max_ulps: float | None = 0.0,
) -> tuple[Check, ...]:
    return tuple(
        Check(
            engine=engine,
            dtype=dtype,
            mode="reverse",
            input="x",
            status=status,  # type: ignore[arg-type]
            max_ulps=max_ulps,
            truth="confirmed",
            forward=1,
            backward=1,
            duration_s=0.001,
        )
        for engine in engines
        for dtype in dtypes
    )


def quadratic() -> SpecResult:
    text = "inputs: {x: 2}\nmodel: |\n  y = x**2\n  z = 2*y + 3\n"
    readings = tuple(
        Reading(engine, dtype, "reverse", None, 11.0, {"x": 8.0})
        for engine in ENGINES
        for dtype in ("float32", "float64")
    )
    return SpecResult(
        spec="quadratic",
        source=Source("specs/examples/quadratic.yaml", text),
        status="passed",
        checks=checks(),
        readings=readings,
        duration_s=0.01,
        output_name="z",
    )


def trained() -> SpecResult:
    return SpecResult(
        spec="linear_regression_trained",
        source=Source("specs/examples/linear_regression_trained.yaml", "name: trained\n"),
        status="passed",
        checks=checks(dtypes=("float64",), max_ulps=1.5),
        trainings=tuple(
            TrainingResult(
                engine,
                "float64",
                100,
                0.0643,
                {"w": 1.745076887727999, "b": 0.5794645661516962},
            )
            for engine in ENGINES
        ),
    )


RECIPROCAL = "name: reciprocal_exp\ndtypes: [float32]\ninputs:\n  x: 100\n\nmodel: 1 / exp(x)\n"


def overflow_cause(engine: str, story: str) -> Cause:
    return Cause(
        op="exp",
        phase="forward",
        span=Span(6, 12, 6, 18),
        text="exp(x)",
        detail="overflows float32: exp(100) = 2.69e+43 > 3.40e+38",
        story=story,
        kind="overflow",
        node=2,
        engine_op={"torch": "aten.exp.default", "tensorflow": "Exp"}[engine],
        proven=True,
        proof="with only `exp(x)` exact, the gradient is right",
        repaired=0.4,
    )


def nan_finding(engine: str, mode: str = "reverse") -> Finding:
    return Finding(
        code="GC201",
        severity="error",
        message="the gradient is nan, and the truth is a number",
        span=Span(6, 8, 6, 18),
        engine=engine,
        dtype="float32",
        mode=mode,
        input="x",
        entries=(
            Entry(
                index=(),
                computed=math.nan,
                truth=-3.7200759760208356e-44,
                truth_error=4e-60,
                finite_difference=-3.7200759760208361e-44,
                finite_difference_error=4.2e-53,
                ulps=math.nan,
            ),
        ),
        truth_source="confirmed",
        cause=overflow_cause(engine, "forward: exp(100) = inf, 1/inf = 0; backward: 0 * inf = nan"),
        repeat=f"gradcheck run reciprocal_exp.yaml --engine {engine} --dtype float32 --seed 0",
        fingerprint="a1b2c3",
    )


def reciprocal_exp() -> SpecResult:
    return SpecResult(
        spec="reciprocal_exp",
        source=Source("specs/reciprocal_exp.yaml", RECIPROCAL),
        status="failed",
        checks=checks(
            "failed", engines=("torch", "tensorflow"), dtypes=("float32",), max_ulps=None
        ),
        findings=(nan_finding("torch"), nan_finding("tensorflow")),
        readings=(Reading("torch", "float32", "reverse", None, 0.0, {"x": math.nan}),),
        output_name="output",
    )


DENSE = (
    "name: dense\ninputs:\n  W: {shape: [3, 2]}\nmodel: |\n  z = x @ W\n  loss = sum(sin(z)**2)\n"
)


def wrong_entry(index: tuple[int, ...], computed: float) -> Entry:
    return Entry(
        index=index,
        computed=computed,
        truth=-computed,
        truth_error=1e-17,
        finite_difference=-computed,
        finite_difference_error=3.4e-12,
        ulps=9.0e15,
    )


def wrong_sign() -> SpecResult:
    values = (1.7600984777091067, 0.25, -0.125)
    findings = tuple(
        Finding(
            code="GC101",
            severity="error",
            message="the gradient is wrong in every precision",
            span=Span(6, 10, 6, 24),
            engine=engine,
            dtype="float64",
            mode="reverse",
            input="W",
            entries=tuple(wrong_entry((row, 0), value) for row, value in enumerate(values)),
            more=3,
            truth_source="confirmed",
            pattern="wrong sign",
            repeat=f"gradcheck run dense.yaml --engine {engine} --dtype float64",
        )
        for engine in ENGINES
    )
    return SpecResult(
        spec="dense",
        source=Source("specs/dense.yaml", DENSE),
        status="failed",
        checks=checks("failed", dtypes=("float64",), max_ulps=9.0e15),
        findings=findings,
        notes=("torch: forward mode was left out, the custom gradient states no jvp",),
        output_name="loss",
    )


def relu_kink() -> SpecResult:
    return SpecResult(
        spec="relu_at_zero",
        source=Source("specs/relu_at_zero.yaml", "inputs: {x: 0}\nmodel: relu(x)\n"),
        status="passed",
        checks=checks(),
        findings=tuple(
            Finding(
                code="GC401",
                severity="note",
                message="a kink: the one-sided derivatives are 0 and 1",
                span=Span(2, 8, 2, 15),
                engine=engine,
                dtype="float64",
                mode="reverse",
                input="x",
            )
            for engine in ENGINES
        ),
        readings=(Reading("reference", "float64", "reverse", None, 0.0, {"x": 0.0}),),
    )


def spec_error() -> SpecError:
    text = "inputs: {x: 1}\nmodel: epx(x)\n"
    return SpecError(
        code="GC905",
        path="specs/bad.yaml",
        message="unknown operation `epx`",
        span=Span(2, 8, 2, 11),
        source=Source("specs/bad.yaml", text),
        key="model",
        help="did you mean `exp`?",
    )


def report(*results: SpecResult, errors: tuple[SpecError, ...] = ()) -> Report:
    return Report(
        version="0.1.0",
        engines=ENGINES,
        seed=0,
        duration_s=3.21,
        results=results,
        errors=errors,
        command="gradcheck run specs",
    )


def everything() -> Report:
    return report(
        quadratic(),
        trained(),
        reciprocal_exp(),
        wrong_sign(),
        relu_kink(),
        errors=(spec_error(),),
    )


def tried_fix() -> Fix:
    return Fix(
        before="1 / exp(x)",
        after="exp(-x)",
        model="exp(-x)",
        rules=("1 / exp(x) -> exp(-x)",),
        condition="",
        kink="",
        custom=False,
        value=-3.783505853677006e-44,
        ulps_before=math.nan,
        ulps_after=0.45,
        points=8,
        right=7,
        code={"torch": "import torch\n\n\ndef f(x):\n    return torch.exp(-x)"},
    )


STRANGE = "w[i] [/] [bold]x[/bold] `|` <b>&amp;</b> %0A::error:: \x1b[31m\u202e\x00 😀 \ud800\ufffe"
"""What a name may hold that a terminal, markup, XML or JSON reads as more than letters."""


def strange() -> Report:
    """Names with all kinds of characters, a path of 200 characters, and numbers that are not
    finite."""
    source = Source(f"specs/{STRANGE}/{'long' * 33}.yaml", RECIPROCAL)
    nan = replace(nan_finding("torch"), input=STRANGE, message=f"nan\nin {STRANGE}")
    (entry,) = nan.entries
    entries = tuple(
        replace(entry, index=(place,), computed=value, truth=value, ulps=value)
        for place, value in enumerate((math.inf, -math.inf, 0.0))
    )
    infinite = replace(nan, code="GC202", entries=entries, fix=tried_fix(), fingerprint="d4e5f6")
    accepted = replace(nan, code="GC301", severity="note", allowed=True, reason=STRANGE)
    left_out = replace(nan, code="GC402", severity="warning", reason=f"--ignore {STRANGE}")
    result = replace(
        reciprocal_exp(),
        spec=STRANGE,
        source=source,
        findings=(nan, infinite, accepted),
        notes=(STRANGE,),
        suppressed=(left_out, left_out),
    )
    error = replace(spec_error(), path=source.path, source=source, message=STRANGE, key=STRANGE)
    return report(result, errors=(error,))


def many(count: int) -> Report:
    """One failing spec for each finding."""
    return report(
        *(
            replace(
                reciprocal_exp(),
                spec=f"s{number}",
                findings=(replace(nan_finding("torch"), fingerprint=f"{number:x}"),),
            )
            for number in range(count)
        )
    )
