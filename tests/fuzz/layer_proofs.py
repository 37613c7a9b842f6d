"""Attacks on proofs about layers of PyTorch, JAX and TensorFlow: layers of random operations are
searched, and inside each domain that is called free of a kind of failure, the layer itself is run
at random and extreme points. One that fails in that kind is a counterexample: a bug of the worst
sort.

    python -m tests.fuzz.layer_proofs [--engine E] [--layers N] [--points N] [--seed N]

Many points are one call (`layer_languages`); those that seem to fail are run alone, and compared
with the certified truth of the forward.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli import specfile
from gradcheck_cli.checks.protocol import drive
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.search import KINDS, Kind, SearchRequest
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.base import make
from gradcheck_cli.engines.entry_points import targets
from gradcheck_cli.search.box import Domain, Ordinals
from gradcheck_cli.search.kinds import suspects
from gradcheck_cli.search.layers import layer_searching
from gradcheck_cli.search.probes import probes
from gradcheck_cli.search.truths import PointTruth
from tests.fuzz.layer_languages import LANGUAGES
from tests.fuzz.proofs import Counterexample, drawn_points

_ENDS = (0.0, 1e-30, 1e-3, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0, 80.0, 100.0, 1e4, 1e20)
_SIZE = 3
_MANY = 1 << 16  # points of one call
_BOXES = 1000  # of a proof, which stands alone here: no point was run before


class Attack:
    """Searches random layers in this process, and collects counterexamples."""

    def __init__(self, seed: int, engine: str = "torch") -> None:
        self._rng = np.random.default_rng(seed)
        self._engine = make(targets()[engine])
        self._language = LANGUAGES[engine]()
        self._engine.load()
        self.layers = 0  # of which something was proven
        self.proofs = 0
        self.points = 0
        self.reasons: dict[str, int] = {}

    def text(self) -> str:
        """A random layer of x (..., 3), with one number for each x."""
        inner = self._expression(int(self._rng.integers(1, 4)))
        return _filled(str(self._rng.choice(self._language.whole)), inner)

    def _expression(self, depth: int) -> str:
        rng = self._rng
        if depth == 0:
            return "x"
        if rng.random() < 0.7:
            return _filled(str(rng.choice(self._language.unary)), self._expression(depth - 1))
        both = [self._expression(int(rng.integers(depth))) for _ in range(2)]
        return str(rng.choice(self._language.binary)).format(*both)

    def run(self, text: str, points: int) -> None:
        """Search the layer, and attack what is proven. Raises Counterexample."""
        rng = self._rng
        low, high = sorted(rng.choice(_ENDS, 2) * rng.choice((-1.0, 1.0), 2))
        high = high if high > low else low + 1.0
        dtype = str(rng.choice(("float32", "float32", "float64", "float16", "bfloat16")))
        layer = eval(f"lambda x: {text}", self._language.names("float32"))
        spec = _spec(layer, low, high, self._engine.capabilities.name)
        request = SearchRequest(spec, dtype, KINDS, 0.5, 0)
        with layer_searching(self._engine, request) as searching:
            drive(searching._ask_for_the_program(), lambda ask: None)
            searching._begin_proof()
            searching._prove(_BOXES)
            proof = searching._proof
            proven = [] if proof is None else [kind for kind in KINDS if not proof.is_open(kind)]
            if proof is None:
                self.reasons[searching._why] = self.reasons.get(searching._why, 0) + 1
            self.proofs += len(proven)
            self.layers += bool(proven)
            for turn in range(math.ceil(points / _MANY) if proven else 0):
                self._attacked(searching, proven, turn, text)

    def _attacked(self, searching: Any, proven: list[Kind], turn: int, text: str) -> None:
        domain: Domain = searching._domain
        points = drawn_points(domain, _MANY, self._rng)
        if not turn:
            special = probes(domain, (), self._rng)[:_MANY]
            points[: len(special)] = special
        self.points += len(points)
        numbers = domain.numbers(points)
        many = self._language.answers
        answers = many(text, numbers, domain.dtype)
        sizes = suspects(answers, lambda: many(text, numbers, "float64"), domain.format, proven)
        for kind in proven:
            for index in np.argsort(-sizes[kind])[:4]:
                if sizes[kind][index] > 0:
                    self._judge(searching, points[index], kind, text)

    def _judge(self, searching: Any, point: Ordinals, kind: Kind, text: str) -> None:
        domain, wrt = searching._domain, ("x",)
        values = {**domain.values(point), **searching._gradient.constants}
        truth = PointTruth(searching._formula(), values, wrt, domain.dtype)
        alone = self._language.answers(text, domain.numbers(point[None]), domain.dtype)
        for answers in (alone, drive(searching._runner.singly(point[None]), lambda ask: None)):
            own = replace(answers, gradients={"x": answers.gradients["x"]})
            for one in truth.failures(own):
                if one.kind == kind:
                    raise Counterexample(
                        f"{text} in {domain.dtype}: {kind} at {values['x']}: {one.entry} is"
                        f" {one.computed}, truth {one.truth}"
                    )


def _filled(form: str, inner: str) -> str:
    return form.replace("{}", f"({inner})")


def _spec(layer: Any, low: float, high: float, engine: str) -> Spec:
    inner = float(low + 0.618 * (high - low))
    inputs = f"inputs: {{x: {{value: {[inner] * _SIZE}, domain: [{low}, {high}]}}}}\n"
    (spec,), mistakes = specfile.read("attack.yaml", f"{inputs}model: sum(x)\n")
    assert not mistakes, mistakes
    implementation = Implementation(engine, "layer", "", spec.span, live=layer)
    return replace(spec, implementations=(implementation,))


def attack(layers: int, points: int, seed: int, engine: str = "torch") -> Attack:
    """The finished attack. Raises Counterexample."""
    made = Attack(seed, engine)
    for _ in range(layers):
        made.run(made.text(), points)
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=sorted(LANGUAGES), default="torch")
    parser.add_argument("--layers", type=int, default=200)
    parser.add_argument("--points", type=int, default=1 << 17)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        done = attack(options.layers, options.points, options.seed, options.engine)
    except Counterexample as found:
        print(f"counterexample, seed {options.seed}: {found}")
        return 1
    for why, count in sorted(done.reasons.items(), key=lambda pair: -pair[1])[:12]:
        print(f"  {count} times: {why}")
    print(
        f"seed {options.seed}: {done.proofs} proofs of {done.layers} of {options.layers} layers"
        f" held at {done.points} points"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
