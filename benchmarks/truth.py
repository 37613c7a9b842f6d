"""Compares the cost of certified gradients with that of the same gradients by mpmath.

Balls: one forward and one backward pass at 117 bits, with which the certified truth starts. mpmath:
central differences of the same function at three times the precision, which leave 117 bits
(truncation and rounding take a third each), with two evaluations for each input. Both sides of a
row run in turn, so that a busy machine slows both, and the table has the fastest of each. The exit
code is 1 if a target is missed.

    python benchmarks/truth.py
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

import reference_engine as re
from reference_engine.arithmetic.arbs import precision
from reference_engine.enclosing import ball_vjp

BITS = 117
TARGET = 0.1  # of the time that mpmath takes
REPEATS = 3


@dataclass(frozen=True, slots=True)
class Row:
    """One function in two forms: of arrays, in rows of the table, and of flat lists of mpf numbers.

    `operations` is the number of scalar operations in one evaluation. If the target is not
    `claimed`, the row is only shown: recording each array costs more than the arithmetic.
    """

    name: str
    balls: Callable[..., Any]
    mpmath: Callable[[list[Any]], Any]
    at: tuple[Any, ...]
    operations: int
    claimed: bool = True


def _logistic_balls(x: Any, y: Any) -> Any:
    return re.log(1 + re.exp(x * y)) * re.sin(x) / (1 + y * y)


def _logistic_mpmath(v: list[Any]) -> Any:
    x, y = v
    return mp.log(1 + mp.exp(x * y)) * mp.sin(x) / (1 + y * y)


def _softmax_balls(x: Any) -> Any:
    return re.sum(re.softmax(x) * x)


def _softmax_mpmath(v: list[Any]) -> Any:
    e = [mp.exp(x) for x in v]
    total = mp.fsum(e)
    return mp.fsum(p / total * x for p, x in zip(e, v, strict=True))


def _layer_balls(w: Any, x: Any) -> Any:
    return re.sum(re.tanh(w @ x))


def _layer_mpmath(v: list[Any]) -> Any:
    w, x = v[:64], v[64:]
    return mp.fsum(mp.tanh(mp.fdot(w[8 * i : 8 * i + 8], x)) for i in range(8))


def _chain_balls(x: Any) -> Any:
    return re.sum(re.log(1 + re.exp(re.sin(x) * x)))


def _chain_mpmath(v: list[Any]) -> Any:
    return mp.fsum(mp.log(1 + mp.exp(mp.sin(x) * x)) for x in v)


def rows() -> list[Row]:
    rng = np.random.default_rng(0)
    draw = rng.standard_normal
    return [
        Row("two numbers", _logistic_balls, _logistic_mpmath, (0.3, 1.7), 8, False),
        Row("softmax of 32", _softmax_balls, _softmax_mpmath, (draw(32),), 128),
        Row("layer of 8", _layer_balls, _layer_mpmath, (draw((8, 8)), draw(8)), 144),
        Row("chain of 50", _chain_balls, _chain_mpmath, (draw(50),), 300),
    ]


def by_balls(row: Row) -> Any:
    with precision(BITS):
        value, pull = ball_vjp(row.balls, [np.asarray(x, np.float64) for x in row.at])
        return pull(np.ones(value.shape))


def by_mpmath(row: Row) -> list[Any]:
    numbers = [mp.mpf(float(x)) for x in np.concatenate([np.ravel(x) for x in row.at])]
    with mp.workprec(3 * BITS):
        h = mp.ldexp(1, -BITS)
        gradient = []
        for i, x in enumerate(numbers):
            above, below = ([*numbers[:i], x + s, *numbers[i + 1 :]] for s in (h, -h))
            gradient.append((row.mpmath(above) - row.mpmath(below)) / (2 * h))
        return gradient


def _seconds(function: Callable[[Row], Any], row: Row) -> float:
    started = time.perf_counter()
    function(row)
    return time.perf_counter() - started


def _agree(row: Row) -> bool:
    balls = np.concatenate([np.ravel(x) for x in by_balls(row)])
    exact = by_mpmath(row)
    return all(abs(float(b.mid()) - float(t)) <= 1e-14 for b, t in zip(balls, exact, strict=True))


def _many() -> tuple[int, float]:
    """The number of operations of a large program, and the seconds of its gradient."""
    x = np.random.default_rng(1).standard_normal(20_000)
    row = Row("chain", _chain_balls, _chain_mpmath, (x,), 6 * x.size)
    return row.operations, min(_seconds(by_balls, row) for _ in range(2))


def main() -> int:
    missed = False
    print(f"{'gradient of':16} {'balls':>10} {'mpmath':>10} {'ratio':>7} {'per operation':>14}")
    for row in rows():
        if not _agree(row):
            print(f"{row.name}: the two disagree")
            return 1
        balls, exact = (
            min(times)
            for times in zip(
                *((_seconds(by_balls, row), _seconds(by_mpmath, row)) for _ in range(REPEATS)),
                strict=True,
            )
        )
        ratio = balls / exact
        missed |= row.claimed and ratio > TARGET
        print(
            f"{row.name:16} {1e3 * balls:7.2f} ms {1e3 * exact:7.2f} ms {ratio:7.3f} "
            f"{1e6 * balls / row.operations:11.2f} us"
        )
    operations, seconds = _many()
    print(f"{operations} operations: {seconds:.2f} s, {1e6 * seconds / operations:.2f} us each")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
