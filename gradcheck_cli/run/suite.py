"""The specs of a suite: a worker lists the samples of its operations, and each sample becomes a
spec."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from gradcheck_cli.domain.errors import GradcheckError
from gradcheck_cli.domain.evaluation import Failure
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.layer import as_program
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.place import Source, Span
from gradcheck_cli.domain.spec import Input, Spec
from gradcheck_cli.domain.suite import SUITES, Sample, SuiteListing, SuiteRequest
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.run.plan import choose_engines, placed
from gradcheck_cli.run.workers.pool import Pool
from gradcheck_cli.run.workers.task import Done, Task

_LISTED_IN_S = 600.0  # all of PyTorch's samples take 20 s


class Suite:
    """The operations of the suite `name`. `refused` says why an operation has no spec. The worker
    of `pool` lists the operations and serves the run. Close it after use. Raises UsageError if an
    engine of `options` is unknown or not available, and GradcheckError if the operations cannot be
    listed."""

    def __init__(self, name: str, options: RunOptions) -> None:
        registered = engines()
        self.name = name
        self.refused: Mapping[str, str] = {}
        self._engines = choose_engines(None, options, registered)[0]
        self._placement = placed(None, options)
        self.pool = Pool(options.jobs, options.show_framework_output)
        self.pool.start(self._engines[0], registered[self._engines[0]].target, self._placement)

    def names(self) -> Sequence[str]:
        return self._listing(SuiteRequest(_module(self.name))).names

    def specs(self, ops: Collection[str], most: int, order: int, is_complex: bool) -> list[Spec]:
        """A spec for each sample of these operations, at most `most` for each operation."""
        if not ops:
            return []
        listing = self._listing(SuiteRequest(_module(self.name), tuple(ops), most, is_complex))
        self.refused = listing.refused
        return specs_of(self.name, listing.samples, self._engines, order, is_complex)

    def close(self) -> None:
        self.pool.kill()

    def _listing(self, request: SuiteRequest) -> SuiteListing:
        engine = self._engines[0]
        where = self._placement
        self.pool.submit(Task(None, engine, [request], _LISTED_IN_S, placement=where))
        while not isinstance(done := self.pool.results.get(), Done):
            pass  # the framework is imported
        answer: Any = done.answers[0] if done.answers else done.failure
        if isinstance(answer, Failure):
            raise GradcheckError(
                f"the operations of {self.name} cannot be listed: {answer.message}"
            )
        assert isinstance(answer, SuiteListing)
        return answer


def specs_of(
    suite: str,
    samples: Iterable[Sample],
    engines: Sequence[str],
    order: int = 1,
    is_complex: bool = False,
) -> list[Spec]:
    """A spec for each sample. All samples of an operation share one source text, with a line for
    each."""
    specs: list[Spec] = []
    for op, group in groupby(samples, lambda sample: sample.op):
        several = list(group)
        text = "\n".join(_in_words(sample, order) for sample in several)
        source = Source(f"{suite}/{op}", text)
        for line, sample in enumerate(several, 1):
            span = Span(line, 1, line, 1 + len(source.line(line)))
            args = (op, sample.number, is_complex)
            layers = tuple(
                Implementation(engine, f"{_module(suite)}:Operation", "", span, args)
                for engine in engines
            )
            specs.append(_spec(sample, source, span, order, layers))
    return specs


def _module(suite: str) -> str:
    return f"gradcheck_cli.engines.{SUITES[suite][0]}.suite"


def _spec(
    sample: Sample, source: Source, span: Span, order: int, layers: tuple[Implementation, ...]
) -> Spec:
    inputs = {
        name: Input(name, value, True, is_complex=name in sample.complex_inputs)
        for name, value in sample.inputs.items()
    }
    suite = source.path.partition("/")[0]
    second = f" --order {order}" if order > 1 else ""
    return Spec(
        name=sample.title,
        source=source,
        span=span,
        program=as_program(layers[0], {name: one.value.shape for name, one in inputs.items()}, ()),
        points=(inputs,),
        wrt=(),
        order=order,
        implementations=layers,
        identity=f"{suite}/{sample.title}",
        called=f"gradcheck suite {suite} {sample.op}{second} --samples {sample.number + 1}",
    )


def _in_words(sample: Sample, order: int) -> str:
    """`cholesky[0](x0: 5x5)`, the source line that reports show."""
    inputs = (
        f"{name}: {'x'.join(map(str, value.shape)) or 'scalar'}"
        for name, value in sample.inputs.items()
    )
    return f"{sample.title}({', '.join(inputs)})" + (f", order {order}" if order > 1 else "")
