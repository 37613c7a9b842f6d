"""Replacements for constructs that are not part of the formula language."""

from __future__ import annotations

import ast

from reference_engine.op import SEVERAL, TABLE, Op, Several, find, find_several

NOT_HERE: dict[type[ast.AST], tuple[str, str]] = {
    ast.If: ("`if` is not part of the formula language", "write where(condition, a, b)"),
    ast.IfExp: ("`a if c else b` is not part of the formula language", "write where(c, a, b)"),
    ast.While: ("`while` is not part of the formula language", "write for i in range(3): ..."),
    ast.Lambda: ("`lambda` is not part of the formula language", "write def f(x): return ..."),
    ast.Import: ("nothing can be imported", "operations are available by name: exp(x)"),
    ast.ImportFrom: ("nothing can be imported", "operations are available by name: exp(x)"),
    ast.ListComp: (
        "comprehensions are not part of the formula language",
        "operations work on whole arrays; or write a for loop",
    ),
    ast.BoolOp: (
        "`and` and `or` are not part of the formula language",
        "combine comparisons with & and |: (a < b) & (b < c)",
    ),
    ast.Not: ("`not` is not part of the formula language", "write ~(a < b)"),
    ast.BitXor: ("`^` is not part of the formula language", "a power is written x ** 2"),
    ast.FloorDiv: ("`//` works on constants only", "it has no gradient; write / for division"),
    ast.Mod: ("`%` works on constants only", "it has no useful gradient"),
    ast.LShift: ("`<<` is not part of the formula language", ""),
    ast.RShift: ("`>>` is not part of the formula language", ""),
    ast.JoinedStr: ("strings are not part of a formula", ""),
    ast.Dict: ("dictionaries are not part of the formula language", ""),
    ast.Set: ("sets are not part of the formula language", ""),
    ast.NamedExpr: (
        "`:=` is not part of the formula language",
        "write the assignment on its own line",
    ),
    ast.Starred: ("`*` before an argument is not part of the formula language", "write them out"),
    ast.AnnAssign: ("annotations are not part of the formula language", "write name = expression"),
    ast.Return: ("`return` belongs in a function", "the last statement of a formula is its output"),
    ast.ClassDef: ("classes are not part of the formula language", ""),
    ast.With: ("`with` is not part of the formula language", ""),
    ast.Try: ("`try` is not part of the formula language", ""),
    ast.Raise: ("`raise` is not part of the formula language", ""),
    ast.Assert: ("`assert` is not part of the formula language", ""),
    ast.Pass: ("`pass` does nothing", "leave it out"),
    ast.Delete: ("`del` is not part of the formula language", ""),
    ast.Global: ("`global` is not part of the formula language", "pass values as arguments"),
    ast.Nonlocal: ("`nonlocal` is not part of the formula language", "pass values as arguments"),
    ast.Break: ("`break` is not part of the formula language", "the number of iterations is fixed"),
    ast.Continue: (
        "`continue` is not part of the formula language",
        "the number of iterations is fixed",
    ),
}
for _alike in (ast.SetComp, ast.DictComp, ast.GeneratorExp):
    NOT_HERE[_alike] = NOT_HERE[ast.ListComp]

_MODULES = {
    "np",
    "numpy",
    "math",
    "torch",
    "tf",
    "jnp",
    "jax",
    "F",
    "nn",
    "scipy",
    "xp",
    "K",
    "keras",
}

FORBIDDEN = {
    "__import__", "eval", "exec", "open", "compile", "getattr", "setattr", "globals", "locals",
    "vars", "dir", "input", "breakpoint", "type", "object", "super",
}  # fmt: skip

INSTEAD = {
    "ln": "write log(x)",
    "fabs": "write abs(x)",
    "mm": "write a @ b",
    "inner": "write a @ b",
    "cat": "write concatenate([a, b], axis=0)",
    "hstack": "write concatenate([a, b], axis=1)",
    "vstack": "write concatenate([a, b], axis=0)",
    "clamp": "write clip(x, 0, 1)",
    "reduce_sum": "write sum(x)",
    "reduce_mean": "write mean(x)",
    "average": "write mean(x)",
    "append": "a list grows by ys = [*ys, y]",
    "float": "numbers need no conversion: write the number",
    "int": "numbers need no conversion: write the number",
    "len": "shapes are fixed: write the number",
    "shape": "shapes are fixed: write the number",
    "array": "give the numbers as an input, or write stack([a, b])",
    "tensor": "give the numbers as an input, or write stack([a, b])",
    "print": "a formula cannot print; a report names every intermediate value that matters",
    "range": "range belongs in a loop: for i in range(3):",
    "getitem": "write x[0, 1:3]",
    "sgn": "write sign(x)",
    "select": "write where(condition, a, b)",
    "flatten": "write reshape(x, (-1,))",
    "ravel": "write reshape(x, (-1,))",
    "bmm": "write a @ b",
    "mv": "write a @ b",
    "gather": "use take or take_along_axis",
    "index_select": "use take",
    "chunk": "use split",
    "unbind": "take x[0], x[1] and so on",
    "masked_fill": "write where(condition, a, x)",
    "segment_sum": "use scatter_add",
    "reduce_max": "write max(x)",
    "reduce_min": "write min(x)",
}


def for_attribute(node: ast.Attribute, arguments: str | None) -> str:
    """The help for `x.name`, or for a call `x.name(arguments)`."""
    owner = node.value
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    value = ast.unparse(node.value) if isinstance(node.value, ast.Name) else "x"
    if isinstance(owner, ast.Name) and owner.id in _MODULES:
        if _is_operation(node.attr):
            return f"write {node.attr}({arguments if arguments is not None else 'x'})"
        if node.attr in ("pi", "e", "inf"):
            return f"write {node.attr}"
        return {"newaxis": "write None"}.get(node.attr) or INSTEAD.get(
            node.attr, "operations are available by name: exp(x)"
        )
    if node.attr in ("T", "mT"):
        return f"write transpose({value})"
    if node.attr == "shape":
        return INSTEAD["shape"]
    if _is_operation(node.attr):
        rest = f", {arguments}" if arguments else ""
        return f"write {node.attr}({value}{rest})"
    return INSTEAD.get(node.attr, "operations are called by name: exp(x)")


def _is_operation(name: str) -> bool:
    return find(name) is not None or find_several(name) is not None


def operations() -> list[str]:
    """The name and aliases of every operation that a formula can call."""
    rows: list[Op | Several] = [*TABLE.values(), *SEVERAL.values()]
    names = [name for row in rows for name in (row.name, *row.aliases)]
    return [name for name in names if name != "getitem"]
