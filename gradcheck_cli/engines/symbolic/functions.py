"""Functions of real numbers that SymPy only has for complex ones, or whose derivatives are not
functions there. Importing this module imports SymPy."""

from __future__ import annotations

from typing import Any

import mpmath
import sympy


class Size(sympy.Function):  # type: ignore[misc]
    """|x| for real x. Its derivative is the sign, and 0 at 0."""

    @classmethod
    def eval(cls, x: Any) -> Any:
        if x.is_nonnegative:
            return x
        return sympy.Abs(x) if x.is_Number else None

    def fdiff(self, argindex: int = 1) -> Any:
        x = self.args[0]
        return sympy.Piecewise((1, x > 0), (-1, x < 0), (0, True))

    def _latex(self, printer: Any, exp: Any = None) -> str:
        text = rf"\left|{{{printer._print(self.args[0])}}}\right|"
        return text if exp is None else f"{text}^{{{exp}}}"

    def _pythoncode(self, printer: Any) -> str:
        return f"abs({printer._print(self.args[0])})"

    _sympystr = _mpmathcode = _pythoncode


class Largest(sympy.Function):  # type: ignore[misc]
    """The largest of its arguments. Arguments that are equally large share its derivative."""

    def fdiff(self, argindex: int = 1) -> Any:
        x = self.args[argindex - 1]
        others = [y for i, y in enumerate(self.args) if i != argindex - 1]
        equals = [sympy.Piecewise((1, sympy.Eq(y, x)), (0, True)) for y in others]
        beaten = sympy.Or(*(y > x for y in others))
        return sympy.Piecewise((0, beaten), (1 / (1 + sympy.Add(*equals)), True))

    def _arguments(self, printer: Any) -> str:
        return ", ".join(printer._print(x) for x in self.args)

    def _latex(self, printer: Any, exp: Any = None) -> str:
        text = rf"\max\left({self._arguments(printer)}\right)"
        return text if exp is None else f"{text}^{{{exp}}}"

    def _sympystr(self, printer: Any) -> str:
        return f"max({self._arguments(printer)})"

    _pythoncode = _mpmathcode = _sympystr


class LogGamma(sympy.Function):  # type: ignore[misc]
    """log |Gamma(x)|."""

    def fdiff(self, argindex: int = 1) -> Any:
        return sympy.polygamma(0, self.args[0])

    def _latex(self, printer: Any, exp: Any = None) -> str:
        text = rf"\log\left|\Gamma\left({printer._print(self.args[0])}\right)\right|"
        return text if exp is None else rf"\left({text}\right)^{{{exp}}}"

    def _sympystr(self, printer: Any) -> str:
        return f"lgamma({printer._print(self.args[0])})"

    def _pythoncode(self, printer: Any) -> str:
        name = printer._module_format("math.lgamma")
        return f"{name}({printer._print(self.args[0])})"

    def _mpmathcode(self, printer: Any) -> str:
        name = printer._module_format("mpmath.loggamma")
        return f"{name}({printer._print(self.args[0])}).real"


class _Step(sympy.Function):  # type: ignore[misc]
    """A function that is constant between its jumps: the derivative is 0."""

    word: str

    def fdiff(self, argindex: int = 1) -> Any:
        return sympy.Integer(0)

    def _sympystr(self, printer: Any) -> str:
        return f"{self.word}({printer._print(self.args[0])})"

    def _latex(self, printer: Any, exp: Any = None) -> str:
        text = rf"\operatorname{{{self.word}}}\left({printer._print(self.args[0])}\right)"
        return text if exp is None else rf"{text}^{{{exp}}}"

    def _pythoncode(self, printer: Any) -> str:
        name = self.word if self.word == "round" else printer._module_format(f"math.{self.word}")
        return f"{name}({printer._print(self.args[0])})"

    def _mpmathcode(self, printer: Any) -> str:
        name = {"round": "nint"}.get(self.word, self.word)
        return f"{printer._module_format(f'mpmath.{name}')}({printer._print(self.args[0])})"


class Floor(_Step):
    word = "floor"


class Ceil(_Step):
    word = "ceil"


class Round(_Step):
    """The nearest integer. Halves round to the even neighbour."""

    word = "round"


NUMERIC = {
    "Ceil": mpmath.ceil,
    "Floor": mpmath.floor,
    "Largest": max,
    "LogGamma": lambda x: mpmath.loggamma(x).real,
    "Round": mpmath.nint,
    "Size": mpmath.fabs,
}
"""The functions that `lambdify` calls."""
