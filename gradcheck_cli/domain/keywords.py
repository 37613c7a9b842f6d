"""The static arguments of operations: each name has one meaning in the whole op table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

KeywordType = Literal["whole", "wholes", "pairs", "flag", "number", "exact", "text", "dtype"]
"""whole    an integer
wholes   an integer or a tuple of integers
pairs    an integer, a pair, or a pair for each axis
flag     True or False
number   a number that takes part in the arithmetic: it is rounded to the dtype like any constant
exact    a number that chooses between formulas (the order of a norm, the rank of a pseudoinverse);
         it is not rounded
text     a word or a subscript
dtype    not for users: the dtype of a result that no argument determines
"""

_NAMES: dict[KeywordType, str] = {
    "whole": "groups k m n num_classes num_groups offset start step stop",
    "wholes": "axes axis destination dilation kernel_size output_padding padding repeats reps "
    "sections shape shift source stride",
    "pairs": "pad_width",
    "flag": "approximate count_include_pad descending full_matrices is_causal keepdims largest "
    "lower",
    "number": "alpha beta delta eps fill_value label_smoothing margin max min negative_slope rate "
    "scale value",
    "exact": "correction ord rtol",
    "text": "reduction subscripts",
    "dtype": "dtype",
}

KEYWORDS: Mapping[str, KeywordType] = MappingProxyType(
    {name: kind for kind, names in _NAMES.items() for name in names.split()}
)
"""The type of each keyword by its name. `index`, the content of brackets after a value, is defined
by the formula language."""

CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType({"reduction": ("mean", "sum", "none")})
"""The words that a text may be, unless it is free text."""
