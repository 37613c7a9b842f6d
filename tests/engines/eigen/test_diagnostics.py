"""What compilers print: whose line, which stretch of it, and in which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.engines.eigen.diagnostics import first_error, readable

SCALAR = "Eigen::AutoDiffScalar<Eigen::Matrix<double, 8, 1, 0, 8, 1> >"
PROGRAM = Path("/c/new-1/program.cpp")
LINE = "T f(const T& x) { return std::exp(-x); }"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    header = tmp_path / "layer.hpp"
    header.write_text(f"template <typename T>\n{LINE}\n")
    return header


def test_the_stretch_that_is_underlined(mine: Path) -> None:
    under = " " * LINE.index("std") + "~~~~~~~~^~~~"
    gutter = f"    2 | {LINE}\n      | {under}\n"
    for below in (gutter, f"{LINE}\n{under}\n".replace("\n", "\n ").join([" ", ""])):
        text = f"{mine}:2:34: error: no call of 'exp({SCALAR})'\n{below}/b:1:1: error: another\n"
        error = first_error(text, PROGRAM, {mine})
        assert str(error) == "it does not compile: no call of 'exp(T)'"
        assert error.place is not None
        assert (error.place.text, error.place.span.line) == ("std::exp(-x)", 2)
        assert (error.line, error.detail) == (None, "")


GCC = """In file included from /c/new-1/program.cpp:6:
/e/Sum.h: In instantiation of 'Sum<A, B>':
/e/Ops.h:27:1:   required from 'A operator+(B)'
{mine}:2:26:   required from 'T f(const T&) [with T = double]'
/c/new-1/program.cpp:22:57:   required from here
/e/Assert.h:33:5: error: static assertion failed: SIZES
   33 |  static_assert(X)
"""
CLANG = """In file included from /c/new-1/program.cpp:6:
/e/Assert.h:33:5: error: static assertion failed due to requirement 'a == (b)': SIZES
/e/Ops.h:27:1: note: in instantiation of 'Sum<A, B>' requested here
{mine}:2:26: note: in instantiation of 'A operator+(B)' requested here
/c/new-1/program.cpp:22:57: note: in instantiation of 'f<double>' requested here
{mine}:1:1: error: another
"""


@pytest.mark.parametrize("text", [GCC, CLANG], ids=["gcc", "clang"])
def test_a_check_of_eigens_is_at_the_line_that_asked_for_it(text: str, mine: Path) -> None:
    error = first_error(text.format(mine=mine), PROGRAM, {mine})
    assert str(error) == "it does not compile: static assertion failed: SIZES"
    assert error.place is not None
    assert (error.place.text, error.place.span.line) == ("std", 2)
    assert error.detail == "in /e/Assert.h:33"


def test_arguments_that_do_not_fit_are_at_the_function(mine: Path) -> None:
    text = (
        f"/c/new-1/program.cpp:22:5: error: no matching function for call to 'f({SCALAR}&)'\n"
        "   22 |     ::f(a...)\n"
        f"{mine}:2:3: note: candidate: 'template<class T> T f(const T&)'\n"
        f"{mine}:2:3: note:   template argument deduction/substitution failed:\n"
        "/c/new-1/program.cpp:22:5: note:   couldn't deduce template parameter 'T'\n"
        "/e/Core:9:9: note: candidate: 'nothing of theirs'\n"
        "/e/Core:9:9: note:   why\n"
    )
    error = first_error(text, PROGRAM, {mine})
    assert str(error) == "it does not compile: no matching function for call to 'f(T&)'"
    assert error.place is not None
    assert error.place.text == "f"
    assert error.detail.splitlines() == [
        "layer.hpp:2: candidate: 'template<class T> T f(const T&)'",
        "  couldn't deduce template parameter 'T'",
        "if T cannot be deduced, write name<T> in the spec",
    ]


def test_what_a_function_gives_that_is_no_array() -> None:
    text = "/c/program.cpp:22:5: error: no matching function for call to 'result<T>(Functor)'\n"
    theirs = {Path("/layer.hpp")}
    says = "its result, Functor, is neither a T nor an array of T"
    assert says in str(first_error(text, PROGRAM, theirs))
    clang = "/c/program.cpp:22:5: error: no matching function for call to 'result'\n"
    says = "its result is neither a T nor an array of T"
    assert says in str(first_error(clang, PROGRAM, theirs))


def test_what_is_nobodys_is_told_with_its_place() -> None:
    text = "In file included from a\n/x/sys.h:3:9: fatal error: no b\nprogram.cpp:1: error: c\n"
    error = first_error(text, Path("program.cpp"), ())
    assert str(error) == "it does not compile: no b (/x/sys.h:3)"
    assert (error.line, error.place) == (None, None)
    assert error.detail.startswith("/x/sys.h:3: fatal error")
    assert str(first_error("c++: no input", PROGRAM, ())).endswith(": c++: no input")


@pytest.mark.parametrize(
    ("says", "read"),
    [
        (f"std::vector<{SCALAR}, std::allocator<{SCALAR} > >", "std::vector<T, std::allocator<T>>"),
        (
            "Eigen::AutoDiffScalar<Eigen::CwiseUnaryOp<Eigen::minus<float> > >",
            "AutoDiffScalar<...>",
        ),
        (f"Eigen::Matrix<{SCALAR}, -1, 1, 0, -1, 1>", "Eigen::Matrix<T, -1, 1>"),
        (f"Eigen::Matrix<{SCALAR}, 1, -1, 1, 1, -1>", "Eigen::Matrix<T, 1, -1>"),
        (f"Eigen::Matrix<{SCALAR}, -1, 3, 1, -1, 3>", "Eigen::Matrix<T, -1, 3, 1>"),
    ],
)
def test_types_are_what_a_user_wrote(says: str, read: str) -> None:
    assert readable(says) == read
