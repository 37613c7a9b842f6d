"""The operations as formulas: functions of SymPy expressions, one file a family of the op table.

A row of an elementwise family takes expressions, any other object arrays of them. Every function
takes the module `sympy` first, as in every table of lowerings.
"""

from gradcheck_cli.engines.kit.lowerings import Table, gathered

TABLE: Table = gathered(__name__, __path__)
