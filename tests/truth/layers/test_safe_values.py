import numpy as np
import pytest

from gradcheck_cli.engines.layer.subject import Subject, SubjectRequest
from gradcheck_cli.truth.layers.safe_values import RaisedLater, try_call, values_of
from tests.checks.making import layer_problem, torch_engine


def of_positive_numbers(x):  # type: ignore[no-untyped-def]
    if (x < 0).any():
        raise ValueError("negative")
    return x.sqrt().sum()


def subject() -> Subject:
    problem = layer_problem(of_positive_numbers, {"x": [1.0, 4.0]})
    values = {"x": np.array([1.0, 4.0])}
    request = SubjectRequest(problem.implementation, values, "float64", "float64")
    return torch_engine().subject(request)


def test_a_point_that_the_layer_refuses_has_no_value() -> None:
    points = [{"x": np.array([1.0, 9.0])}, {"x": np.array([-1.0, 9.0])}]
    found = values_of(subject(), points, 1)
    assert found[0, 0] == 4.0
    assert np.isnan(found[1, 0])


def test_what_is_raised_once_is_not_a_refusal_of_the_point() -> None:
    answers = iter([RuntimeError("late"), 2.0])

    def there() -> float:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(RaisedLater, match=r"RuntimeError: late \(in one call"):
        try_call(there, lambda: None)


def test_what_its_own_point_raises_too_is_not_a_refusal_of_another() -> None:
    def never() -> float:
        raise ValueError("no")

    with pytest.raises(RaisedLater, match=r"ValueError: no \(in a later call at the given point"):
        try_call(never, never)
    assert try_call(never, lambda: 1.0) is None
