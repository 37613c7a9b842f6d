"""The run that shows a finding about a layer's behaviour, and how it differs from the usual run."""

from __future__ import annotations

from typing import Literal

from gradcheck_cli.domain.records import dataclass

Way = Literal[
    "random",  # the layer draws other numbers
    "again",
    "counted",  # again, as often as the layer was called
    "added up",  # again, by the same amount every time
    "after another",  # input
    "fresh",  # a layer that is made anew
    "second call",  # of one object
    "another between",  # a forward run between a forward and its backward
    "first kept",  # another input gets the gradient of the first one
    "one graph",  # two backward passes
    "gradient overwritten",  # that a backward pass returned, by the next one
    "output written backward",
    "own .grad",  # the layer adds to it
    "input written",  # by the forward
    "parameter written",
    "input written backward",
    "parameter written backward",
    "upstream written",  # by the backward
    "upstream layout",
    "input layout",
    "multiple",  # of the upstream gradient
    "zero",  # for the upstream gradient
    "sum",  # of two upstream gradients
    "untracked",  # without gradients
    "some leaves",  # alone require a gradient
    "one output",  # alone is used
    "forward mode",
]


@dataclass(frozen=True, slots=True)
class OtherRun:
    """A run that differs from the usual one in one way.

    `layout` and `factor` belong to the ways of that name. `names` are the only leaves that require
    a gradient, or the leaves whose `.grad` is added to, or the only output that is used.
    `of_value`: the value differs, not a gradient. `raises`: the layer raises, and no number
    differs.
    """

    way: Way
    layout: str = ""
    factor: float = 1.0
    names: tuple[str, ...] = ()
    of_value: bool = False
    raises: bool = False
