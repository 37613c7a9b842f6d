import numpy as np

from gradcheck_cli.search.box import to_ordinals
from gradcheck_cli.search.roundest import binary_digits, complexity, simpler

from .searched import domain_in, searched, spec_of


def test_the_simplest_points_come_first() -> None:
    domain = domain_in(spec_of("{x: {value: 1, domain: [-100, 100]}}", "x"))
    (point,) = domain.point({"x": np.float64(88.72284)})[None]
    numbers = domain.numbers(simpler(domain, point)).ravel().tolist()
    assert numbers[0] == 1  # the file's own
    assert numbers.index(90) < numbers.index(88) < numbers.index(np.float32(88.7))
    assert complexity(domain, domain.start) == 0


def test_a_witness_has_few_digits() -> None:
    found = searched(spec_of("{x: {value: 1, domain: [-100, 100]}}", "1 / exp(x)"), whole=True)
    witness = found["gradient-nonfinite"].witness
    assert witness is not None
    assert (witness.values["x"].tolist(), witness.genuine) == (90, False)


def test_one_of_many_elements_is_moved() -> None:
    spec = spec_of(
        "{x: {value: [1, 2], domain: [-100, 100]}, y: {value: 3, domain: [2, 5]}}",
        "sum(1 / exp(x)) * y",
    )
    witness = searched(spec, whole=True)["gradient-nonfinite"].witness
    assert witness is not None
    moved = [witness.values["x"][0] != 1, witness.values["x"][1] != 2, witness.values["y"] != 3]
    assert sum(moved) == 1


def test_points_of_few_binary_digits_have_few() -> None:
    domain = domain_in(spec_of("{x: {value: [1, 1], domain: [-4, 4]}}", "sum(x)"))
    rows = [[0.0, 0.0], [0.0, 2.0], [-1.0, 1.5], [0.3, 1.0], [-0.3, 0.7]]
    points = to_ordinals(np.array(rows), domain.format)
    digits = binary_digits(points).tolist()
    assert digits == sorted(digits)
    assert digits[0] == 0
    assert np.all(np.diff(digits) > 0)
