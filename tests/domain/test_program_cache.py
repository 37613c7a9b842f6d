"""What follows from a program alone is made once for it."""

from __future__ import annotations

from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.program_cache import PROGRAMS, cached_by_program


@cached_by_program
def made(program: Program, dtype: str) -> list[str]:
    return [program.text, dtype]


def named(text: str) -> Program:
    return Program((), {}, (), text)


def test_the_very_program_has_it_once_for_each_argument() -> None:
    x = named("x")
    assert made(x, "float32") is made(x, "float32")
    assert made(x, "float64") == ["x", "float64"]
    assert made(named("x"), "float32") is not made(x, "float32")


def test_the_oldest_of_many_is_made_anew() -> None:
    programs = [named(str(number)) for number in range(PROGRAMS + 1)]
    first, *_, last = [made(program, "float64") for program in programs]
    assert made(programs[-1], "float64") is last
    assert made(programs[0], "float64") is not first
