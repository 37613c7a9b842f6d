"""The vjp of a program that gives value and gradients together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.engines.kit.program_vjp import ProgramVJP, Pulled


def test_the_value_comes_with_the_gradients_of_the_first_cotangents() -> None:
    asked: list[Any] = []

    def run(cotangents: list[Any]) -> Pulled:
        asked.append(cotangents)
        (y_bar, _) = cotangents
        return [9.0, None], "rest", [6.0 * y_bar], {0: y_bar}

    vjp = ProgramVJP(run, [np.ones(2), None])
    assert vjp.values == ([9.0, None], "rest")
    assert vjp([np.ones(2), None])[0].tolist() == [6.0, 6.0]
    assert len(asked) == 1
    assert vjp([np.array([1.0, 2.0]), None])[0].tolist() == [6.0, 12.0]
    assert vjp.with_marked([np.array([1.0, 2.0]), None])[1][0].tolist() == [1.0, 2.0]
    assert len(asked) == 2


@pytest.mark.parametrize("other", [[None, np.ones(2)], [np.ones(3), None], [None, None]])
def test_other_targets_are_another_run(other: list[Any]) -> None:
    vjp = ProgramVJP(lambda cotangents: ([], None, [cotangents], {}), [np.ones(2), None])
    assert vjp(other) == [other]
