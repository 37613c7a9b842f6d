"""Expressions as text, as LaTeX, and as Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, Protocol

import numpy as np

from gradcheck_cli.domain.dtypes import Array, Values

NotationName = Literal["text", "latex"]

# Letters with a name in LaTeX, except pi, which is a number.
_LETTERS = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau "
    "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Sigma Upsilon Phi Psi Omega"
)
_GREEK = frozenset(_LETTERS.split())


class Notation(Protocol):
    """How formulas are written."""

    def expression(self, expression: Any) -> str: ...

    def slope(self, above: Any, below: Any) -> str:
        """d above / d below, of two symbols, along all paths between them."""

    def leaf(self, above: Any, below: Any) -> str:
        """The partial derivative of one operation with respect to one of its arguments."""

    def curvature(self, above: Any, first: Any, second: Any) -> str:
        """The second derivative."""

    def product(self, factors: Sequence[tuple[str, str]]) -> str:
        """A sum of products of two factors."""


class Text:
    """The notation of the formula language: `exp(-x)`, `(x if x > 0 else 0)`, `dy/dx[0, 1]`."""

    def expression(self, expression: Any) -> str:
        return _text_printer()(expression)

    def slope(self, above: Any, below: Any) -> str:
        return f"d{above}/d{below}"

    def leaf(self, above: Any, below: Any) -> str:
        return f"∂{above}/∂{below}"

    def curvature(self, above: Any, first: Any, second: Any) -> str:
        return f"d2{above}/d{first}d{second}"

    def product(self, factors: Sequence[tuple[str, str]]) -> str:
        return " + ".join(f"{a} * {b}" for a, b in factors)


class Latex:
    """LaTeX for use between dollar signs."""

    def expression(self, expression: Any) -> str:
        names = {symbol: latex_name(str(symbol)) for symbol in expression.free_symbols}
        words = any(name.startswith(r"\mathrm") for name in names.values())
        between = r" \, " if words else None  # keeps words apart
        settings = {"symbol_names": names, "mul_symbol": between}
        return _latex_printer()(settings).doprint(expression)

    def slope(self, above: Any, below: Any) -> str:
        return self._fraction(r"\mathrm{d}", above, below)

    def leaf(self, above: Any, below: Any) -> str:
        return self._fraction(r"\partial ", above, below)

    def _fraction(self, d: str, above: Any, below: Any) -> str:
        return rf"\frac{{{d}{self.expression(above)}}}{{{d}{self.expression(below)}}}"

    def curvature(self, above: Any, first: Any, second: Any) -> str:
        d = r"\mathrm{d}"
        below = rf"{d}{self.expression(first)} \, {d}{self.expression(second)}"
        return rf"\frac{{{d}^2 {self.expression(above)}}}{{{below}}}"

    def product(self, factors: Sequence[tuple[str, str]]) -> str:
        return " + ".join(rf"{a} \, {b}" for a, b in factors)


NOTATIONS: Mapping[NotationName, Notation] = {"text": Text(), "latex": Latex()}


def latex_name(name: str) -> str:
    r"""The LaTeX of a name: `W[0, 1]` becomes W_{0,1} and `theta` \theta. Any other name of several
    letters is set upright, as one word."""
    word, _, index = name.partition("[")
    stem, digits = re.fullmatch(r"(.*?)_?(\d*)", word).groups()  # type: ignore[union-attr]
    stem = stem.replace("_", r"\_")
    if stem in _GREEK:
        stem = rf"\{stem}"
    stem = stem if len(stem) == 1 or stem[1:] in _GREEK else rf"\mathrm{{{stem}}}"
    below = [digits] if digits else []
    below += [index.removesuffix("]").replace(" ", "")] if index else []
    return f"{stem}_{{{','.join(below)}}}" if below else stem


@cache
def _text_printer() -> Callable[[Any], str]:
    from sympy import default_sort_key
    from sympy.printing.str import StrPrinter

    class Printer(StrPrinter):  # type: ignore[misc]
        def _print_Piecewise(self, expression: Any) -> str:
            text = ""
            for value, condition in expression.args:
                if condition == True:  # noqa: E712 - SymPy's own true
                    return f"({text}{self._print(value)})"
                text += f"{self._print(value)} if {self._print(condition)} else "
            return f"({text}nan)"

        def _print_Relational(self, expression: Any) -> str:
            left, right = map(self._print, expression.args)
            return f"{left} {expression.rel_op} {right}"

        def _joined(self, word: str, expression: Any) -> str:
            parts = sorted(expression.args, key=default_sort_key)
            atoms = [part.is_Relational or part.is_Atom for part in parts]
            texts = map(self._print, parts)
            return word.join(t if a else f"({t})" for t, a in zip(texts, atoms, strict=True))

        def _print_And(self, expression: Any) -> str:
            return self._joined(" and ", expression)

        def _print_Or(self, expression: Any) -> str:
            return self._joined(" or ", expression)

        def _print_Not(self, expression: Any) -> str:
            return f"not ({self._print(expression.args[0])})"

        def _print_Abs(self, expression: Any) -> str:
            return f"abs({self._print(expression.args[0])})"

        def _print_polygamma(self, expression: Any) -> str:
            order, x = expression.args
            called = f"polygamma({self._print(x)}, n={self._print(order)})"
            return called if order != 0 else f"digamma({self._print(x)})"

        def _print_Infinity(self, expression: Any) -> str:
            return "inf"

        def _print_NegativeInfinity(self, expression: Any) -> str:
            return "-inf"

    return Printer().doprint


def python_code(name: str, inputs: Sequence[str], output: Array, gradients: Values) -> str:
    """A Python module with `value` and `gradient`. Inputs are numbers, or arrays indexed as in
    `x[0, 1]`.

    The module needs only `math`, or mpmath if `math` lacks a function.
    """
    from sympy.printing.codeprinter import PrintMethodNotImplementedError
    from sympy.printing.pycode import PythonCodePrinter

    kind: Any = PythonCodePrinter
    for qualified in (False, True):  # math.exp if an input is called exp
        settings = {"fully_qualified_modules": qualified, "strict": True}
        try:
            printer = kind(settings)
            code = _module(printer, name, inputs, output, gradients)
        except PrintMethodNotImplementedError:
            kind = _mpmath_printer()
            printer = kind(settings)
            code = _module(printer, name, inputs, output, gradients)
        if not any(names & {*inputs} for names in printer.module_imports.values()):
            break
    return code


@cache
def _latex_printer() -> Any:
    from sympy.printing.latex import LatexPrinter

    class Printer(LatexPrinter):  # type: ignore[misc]
        def _print_polygamma(self, expression: Any, exp: str | None = None) -> str:
            order, x = map(self._print, expression.args)
            times = "" if expression.args[0] == 0 else rf"^{{\left({order}\right)}}"
            text = rf"\psi{times}\left({x}\right)"
            return text if exp is None else rf"\left({text}\right)^{{{exp}}}"

    return Printer


@cache
def _mpmath_printer() -> Any:
    from sympy.printing.pycode import MpmathPrinter

    class Printer(MpmathPrinter):  # type: ignore[misc]
        """Adds the function of the op table that SymPy's printer does not know."""

        def _print_polygamma(self, expression: Any) -> str:
            arguments = ", ".join(map(self._print, expression.args))
            return f"{self._module_format('mpmath.psi')}({arguments})"

    return Printer


def _module(
    printer: Any, name: str, inputs: Sequence[str], output: Array, gradients: Values
) -> str:
    value = _nested(printer, output)
    slopes = {key: _nested(printer, array) for key, array in gradients.items()}
    imports = [
        f"import {module}"
        if printer._settings["fully_qualified_modules"]
        else f"from {module} import {', '.join(sorted(names))}"
        for module, names in sorted(printer.module_imports.items())
    ]
    given = ", ".join(inputs)
    body = "".join(f"        {key!r}: {text},\n" for key, text in slopes.items())
    about = f'"""{name}: value and gradient, as formulas."""'
    parts = [about, *(["\n".join(imports)] if imports else [])]
    return (
        "\n\n".join(parts)
        + f"\n\n\ndef value({given}):\n    return {value}\n"
        + f"\n\ndef gradient({given}):\n    return {{\n{body}    }}\n"
    )


def _nested(printer: Any, array: Array) -> str:
    if array.ndim == 0:
        return printer.doprint(array[()])
    return f"[{', '.join(_nested(printer, np.asarray(part)) for part in array)}]"
