"""The exceptions of this package, which name the operation and the shapes."""

from __future__ import annotations

Shape = tuple[int, ...]


class ShapeError(ValueError):
    """The arrays given to an operation do not fit together, or do not fit its keywords."""

    def __init__(self, op: str, shapes: tuple[Shape, ...], reason: str) -> None:
        listed = ", ".join(str(shape) for shape in shapes)
        super().__init__(f"{op} does not fit shapes {listed}: {reason}")
        self.op = op
        self.shapes = shapes
        self.reason = reason


class WrongGradientShape(ValueError):
    """A custom gradient rule returned a gradient (or tangent) of another shape than it must have.

    `function` is the function's name, `argument` the position of the argument that the gradient is
    for (None: the tangent of the output), `expected` and `given` are shapes.
    """

    def __init__(self, function: str, argument: int | None, expected: Shape, given: Shape) -> None:
        what = "the output" if argument is None else f"argument {argument}"
        kind = "tangent" if argument is None else "gradient"
        super().__init__(
            f"the custom gradient of {function} gives a {kind} of shape {given} for {what}, "
            f"which has shape {expected}"
        )
        self.function = function
        self.argument = argument
        self.expected = expected
        self.given = given


class GraphFreed(RuntimeError):
    """The reverse pass needs values that an earlier reverse pass has already let go."""

    def __init__(self) -> None:
        super().__init__(
            "this graph was freed by an earlier backward(); "
            "call that one with retain_graph=True to go through it again"
        )
