"""Results of a long run: the same sequence, whether in memory or in a file."""

import numpy as np
import pytest

from gradcheck_cli.domain.place import Source
from gradcheck_cli.domain.report import Comparison, Reading, SpecResult
from gradcheck_cli.run import kept_results
from gradcheck_cli.run.kept_results import KeptResults


def _result(name: str) -> SpecResult:
    ones = np.ones((1, 1))
    compared = {"x": Comparison((), (1,), ones, ones, ones)}
    reading = Reading("torch", "float32", "reverse", None, 1.0, {"x": [1.0]}, compared)
    return SpecResult(name, Source("a.yaml", "model: x"), "passed", readings=(reading,))


def test_those_of_the_file_are_those_that_went_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_results, "IN_MEMORY", 2)
    kept = KeptResults()
    results = [_result(str(number)) for number in range(5)]
    for result in results:
        kept.append(result)
        assert kept[-1] == result  # a reading between two writings moves no place
    assert len(kept) == 5
    assert kept == results
    assert [kept[0], kept[4]] == [results[0], results[4]]
    assert kept[1:4] == results[1:4]
    with pytest.raises(IndexError):
        kept[5]
