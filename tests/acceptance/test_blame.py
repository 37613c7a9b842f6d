"""Programs of twenty lines: the line that spoils the gradient is named, and why, with a proof."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cache

import pytest

from gradcheck_cli.domain.report import Cause, Finding
from gradcheck_cli.specfile import read
from tests.conftest import decide
from tests.every import first

ENGINES = ("reference", "torch", "tensorflow")
REVERSE = tuple((engine, "reverse") for engine in ENGINES)
EVERYWHERE = tuple((engine, mode) for engine in ENGINES for mode in ("reverse", "forward"))


@dataclass(frozen=True)
class Case:
    """A spec, and what has to be said of it: where which code is found, the words of the line to
    blame."""

    text: str
    code: str
    where: tuple[tuple[str, str], ...]
    line: str
    op: str
    kind: str


# The first query may attend to nothing: the row of its scores is -inf throughout. Its weights are
# replaced by zeros, but only after they became nan.
ATTENTION = Case(
    """
dtypes: [float32]
inputs:
  x: [[0.5, -1.0], [1.5, 0.25], [-0.75, 2.0]]
  wq: [[0.3, -0.6], [0.8, 0.1]]
  wk: [[-0.2, 0.9], [0.4, 0.7]]
  wv: [[1.1, 0.2], [-0.5, 0.6]]
model: |
  earlier = tril(ones((3, 3)), k=-1) > 0
  scale = 1 / sqrt(2)
  q = x @ wq
  k = x @ wk
  v = x @ wv
  scores = scale * (q @ transpose(k))
  mask = where(earlier, 0, -inf)
  biased = scores + mask
  top = max(biased, axis=1, keepdims=True)
  shifted = biased - top
  e = exp(shifted)
  total = sum(e, axis=1, keepdims=True)
  p = e / total
  sees = sum(where(earlier, 1, 0), axis=1, keepdims=True) > 0
  weights = where(sees, p, 0)
  context = weights @ v
  hidden = tanh(context + x)
  error = hidden - 1
  squared = error * error
  mean(squared)
""",
    "GC201",
    REVERSE,
    "shifted = biased - top",
    "subtract",
    "masked branch",
)

# One anchor is where its positive is, and far from its negative: the hinge is closed, the loss does
# not depend on the distance, but the derivative of its root is infinite.
NORM = Case(
    """
dtypes: [float32]
inputs:
  a: [[1.0, 2.0], [0.5, -1.0], [2.0, 0.0]]
  w: [[0.5, -0.25], [1.0, 0.75]]
  positive: [[1.0, 2.0], [0.0, -1.5], [1.0, 1.0]]
  negative: [[5.0, -3.0], [0.25, 0.25], [2.5, 0.5]]
wrt: [a, w]
model: |
  anchor = a @ w
  near = positive @ w
  far = negative @ w
  difference = anchor - near
  squares = difference * difference
  total = sum(squares, axis=1)
  d_near = sqrt(total)
  other = anchor - far
  others = other * other
  total_far = sum(others, axis=1)
  d_far = sqrt(total_far)
  margin = 0.1
  lead = d_near - d_far
  gap = lead + margin
  hinge = relu(gap)
  weighted = 2 * hinge
  loss = mean(weighted)
  size = sum(w * w)
  decay = 0.1 * size
  loss + decay
""",
    "GC201",
    # TensorFlow's own sqrt is careful with a cotangent of 0, and so are the tangents of the others
    (("reference", "reverse"), ("torch", "reverse"), ("tensorflow", "forward")),
    "d_near = sqrt(total)",
    "sqrt",
    "masked branch",
)

LOG_SOFTMAX = Case(
    """
dtypes: [float32]
inputs:
  x: [[1.0, 2.0], [30.0, -40.0], [0.5, -1.0]]
  w: [[1.0, -0.5, 0.25], [0.5, 1.0, -1.0]]
  b: [0.0, 0.1, -0.1]
model: |
  labels = eye(3)
  gain = 2
  centred = x - 0.5
  scaled = gain * centred
  hidden = scaled @ w
  z = hidden + b
  e = exp(z)
  total = sum(e, axis=1, keepdims=True)
  p = e / total
  logp = log(p)
  picked = labels * logp
  per_row = sum(picked, axis=1)
  nll = -per_row
  loss = mean(nll)
  size = sum(w * w)
  decay = 0.01 * size
  penalised = loss + decay
  weight = 2
  offset = 1
  weight * penalised + offset
""",
    "GC203",
    EVERYWHERE,
    "e = exp(z)",
    "exp",
    "overflow",
)

VARIANCE = Case(
    """
dtypes: [float32]
inputs:
  x: [1000.1, 1000.2, 999.9, 1000.4, 999.7]
model: |
  gain = 1.5
  target = 0.25
  n = 5
  first = sum(x) / n
  squares = x * x
  second = sum(squares) / n
  squared_mean = first * first
  var = second - squared_mean
  eps = 1e-5
  safe = var + eps
  std = sqrt(safe)
  scaled = gain * std
  shifted = scaled - target
  a = tanh(shifted)
  b = a * a
  c = 1 + b
  loss = log(c)
  weight = 2
  offset = 1
  weight * loss + offset
""",
    "GC301",
    EVERYWHERE,
    "var = second - squared_mean",
    "subtract",
    "cancellation",
)

# The first two rows are nearly the same; the factor's second pivot is what rounding leaves of it.
CHOLESKY = Case(
    """
dtypes: [float32]
inputs:
  x: [[1.0, 0.5, 0.25], [1.0, 0.503, 0.247], [0.5, -0.3, 1.2]]
  y: [0.3, -0.2, 0.9]
model: |
  gain = 1.1
  offset = 0.05
  z = gain * x
  centred = z - offset
  gram = centred @ transpose(centred)
  half = gram / 2
  target = reshape(y, (3, 1))
  factor = cholesky(half)
  solved = triangular_solve(factor, target, lower=True)
  quad = sum(solved * solved)
  pivots = diag(factor)
  logs = log(pivots)
  logdet = 2 * sum(logs)
  nll = quad + logdet
  scaled = 0.5 * nll
  size = sum(x * x)
  weight = 0.01
  prior = weight * size
  total = scaled + prior
  2 * total
""",
    "GC301",
    EVERYWHERE,
    "factor = cholesky(half)",
    "cholesky",
    "sensitivity",
)

CASES = {
    "attention": ATTENTION,
    "norm": NORM,
    "log_softmax": LOG_SOFTMAX,
    "variance": VARIANCE,
    "cholesky": CHOLESKY,
}


@cache
def findings_of(name: str) -> tuple[Finding, ...]:
    """What is found on every engine in both modes."""
    specs, problems = read(f"{name}.yaml", CASES[name].text.strip() + "\n")
    assert problems == []
    (spec,) = specs
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        return decide(replace(spec, engines=ENGINES), "float32").findings


def causes_of(name: str, engine: str, mode: str) -> list[Cause]:
    code = CASES[name].code
    found = [f for f in findings_of(name) if (f.code, f.engine, f.mode) == (code, engine, mode)]
    assert found, [(f.code, f.engine, f.mode) for f in findings_of(name)]
    causes = [finding.cause for finding in found]
    assert all(cause is not None for cause in causes)
    return [cause for cause in causes if cause is not None]


EVERY = [(name, *where) for name, case in CASES.items() for where in case.where]


@pytest.mark.parametrize(("name", "engine", "mode"), first(9, EVERY))
def test_the_line_among_twenty(name: str, engine: str, mode: str) -> None:
    case = CASES[name]
    lines = case.text.strip().splitlines()
    for cause in causes_of(name, engine, mode):
        assert lines[cause.span.line - 1].strip() == case.line
        assert (cause.op, cause.kind) == (case.op, case.kind)


@pytest.mark.parametrize(("name", "engine", "mode"), first(9, EVERY))
def test_the_cause_is_proven(name: str, engine: str, mode: str) -> None:
    for cause in causes_of(name, engine, mode):
        assert cause.proven
        assert " exact" in cause.proof
        assert cause.proof.endswith(" is right")
        assert cause.repaired is not None
        assert cause.repaired <= 64  # a quarter of float32's 24 bits


@pytest.mark.parametrize("name", CASES)
def test_the_programs_are_as_long_as_is_said(name: str) -> None:
    assert len(CASES[name].text.split("model: |\n")[1].splitlines()) >= 20
