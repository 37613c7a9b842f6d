"""The subscripts of einsum, made explicit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from string import ascii_letters

Shape = tuple[int, ...]


@lru_cache(maxsize=512)
def explicit(subscripts: str, ranks: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """The labels of every array and of the result, a letter an axis, without `...` and `->`.

    Without `->` the result has the axes of the ellipsis, then the labels that occur once, in order
    of the alphabet. Raises ValueError where the subscripts do not fit arrays of these ranks.
    """
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        wanted = "1 array" if len(terms) == 1 else f"{len(terms)} arrays"
        raise ValueError(f"{subscripts!r} is for {wanted}, not for {len(ranks)}")
    spare = [letter for letter in ascii_letters if letter not in subscripts]
    hidden = [_hidden(term, rank) for term, rank in zip(terms, ranks, strict=True)]
    rest = "".join(spare[: max(hidden)])
    inputs = tuple(
        term.replace("...", rest[len(rest) - count :])
        for term, count in zip(terms, hidden, strict=True)
    )
    if arrow:
        if rest and "..." not in right:
            raise ValueError(
                f"the result of {subscripts!r} has no `...` for the axes that it hides"
            )
        output = right.replace("...", rest)
    else:
        named = left.replace("...", "").replace(",", "")
        output = rest + "".join(sorted(label for label in set(named) if named.count(label) == 1))
    if len(set(output)) < len(output):
        raise ValueError(f"a label occurs twice in the result of {subscripts!r}")
    if not set(output) <= {label for term in inputs for label in term}:
        raise ValueError(f"a label of the result of {subscripts!r} occurs in no array")
    return inputs, output


def _hidden(term: str, rank: int) -> int:
    """How many axes `...` stands for in a term."""
    labels = term.replace("...", "", 1)
    if labels and not (labels.isascii() and labels.isalpha()):
        raise ValueError(f"subscripts are letters, `...`, `,` and `->`, not {term!r}")
    count = rank - len(labels)
    if count < 0 or (count and "..." not in term):
        raise ValueError(f"{term!r} does not fit an array of {rank} axes")
    return count


def sizes_of(inputs: Sequence[str], shapes: Sequence[Shape]) -> dict[str, int]:
    """The size of every label; one of size 1 is broadcast, as in NumPy.

    Raises ValueError where a label has two sizes.
    """
    sizes: dict[str, int] = {}
    for term, shape in zip(inputs, shapes, strict=True):
        for label, size in zip(term, shape, strict=True):
            if size != shape[term.index(label)]:
                raise ValueError(f"the two axes named {label} in {term!r} differ in size")
            known = sizes.setdefault(label, size)
            if known == 1:
                sizes[label] = size
            elif size not in (1, known):
                raise ValueError(f"the axes named {label} have the sizes {known} and {size}")
    return sizes
