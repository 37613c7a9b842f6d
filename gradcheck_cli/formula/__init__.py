"""Formula -> Program: a small subset of Python that is parsed and never run.

parse(text, place=None, *, constants={}, inputs={"x": Argument((3, 2))}) -> Parsed(program, errors)
used_inputs(program) -> the inputs that its output depends on
"""

from gradcheck_cli.formula.errors import FormulaError
from gradcheck_cli.formula.parser import BUILT_IN, Argument, Parsed, parse
from gradcheck_cli.formula.place import Place
from gradcheck_cli.formula.program import used_inputs

__all__ = ["BUILT_IN", "Argument", "FormulaError", "Parsed", "Place", "parse", "used_inputs"]
