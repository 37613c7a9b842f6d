import ast
from pathlib import Path

import numpy as np

from gradcheck_cli.domain import draws

PACKAGE = Path(draws.__file__).parents[1]
DRAWN_ELSEWHERE = ("integers(0, 2", "choice([-1", "choice((-1")


def test_a_generator_gives_the_numbers_of_its_seed() -> None:
    for _ in range(2):
        for seed in ((3, 7), (3, 8), (0,)):
            expected = np.random.default_rng(seed)
            found = draws.generator(*seed)
            assert found.random(3).tolist() == expected.random(3).tolist()


def test_signs_are_one_or_minus_one() -> None:
    drawn = draws.signs(np.random.default_rng(0), (50, 3))
    assert drawn.shape == (50, 3)
    assert set(np.unique(drawn)) == {-1.0, 1.0}


def test_many_signs_are_drawn_from_bits() -> None:
    drawn = draws.signs(np.random.default_rng(0), (draws.MANY + 3,))
    assert set(np.unique(drawn)) == {-1.0, 1.0}
    assert abs(np.sum(drawn)) < 6 * np.sqrt(drawn.size)
    again = draws.signs(np.random.default_rng(0), drawn.size)
    assert np.array_equal(drawn, again)


def test_directions_are_gaussian_and_of_signs_in_turn() -> None:
    rng = np.random.default_rng(0)
    kinds = [set(np.abs(draws.direction(rng, 50, turn))) == {1.0} for turn in range(4)]
    assert kinds == [False, True, False, True]


def test_signs_are_drawn_in_one_place() -> None:
    elsewhere = [
        f"{path.relative_to(PACKAGE)}:{call.lineno}"
        for path in PACKAGE.rglob("*.py")
        if path != Path(draws.__file__)
        for text in [path.read_text("utf-8")]
        if "integers(" in text or "choice(" in text
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and any(t in ast.unparse(call) for t in DRAWN_ELSEWHERE)
    ]
    assert elsewhere == []
