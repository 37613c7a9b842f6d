"""What einsum's subscripts mean is what NumPy makes of them."""

import numpy as np
import pytest

from reference_engine.ops.linalg import explicit, sizes_of


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ik", ((2, 3), (3, 4))),
        ("ij,jk", ((2, 3), (3, 4))),
        ("ba", ((2, 3),)),
        ("ii", ((3, 3),)),
        ("ii->i", ((3, 3),)),
        ("i,i,i->", ((4,), (4,), (4,))),
        ("...i,...i", ((2, 3, 4), (3, 4))),
        ("...i->i...", ((2, 3, 4),)),
        ("i ..., j ... -> j i ...", ((2, 5), (3, 5))),
    ],
)
def test_explicit_subscripts_give_what_numpy_gives(
    subscripts: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    arrays = [np.random.default_rng(0).normal(size=shape) for shape in shapes]
    inputs, output = explicit(subscripts, tuple(map(len, shapes)))
    assert [len(term) for term in inputs] == [len(shape) for shape in shapes]
    written = f"{','.join(inputs)}->{output}"
    np.testing.assert_array_equal(np.einsum(written, *arrays), np.einsum(subscripts, *arrays))


@pytest.mark.parametrize(
    ("subscripts", "ranks", "message"),
    [
        ("ij,jk", (2,), "is for 2 arrays, not for 1"),
        ("ij", (2, 2), "is for 1 array, not for 2"),
        ("ij", (3,), "'ij' does not fit an array of 3 axes"),
        ("ijk...", (2,), "does not fit an array of 2 axes"),
        ("i1", (2,), "subscripts are letters"),
        ("......", (2,), "subscripts are letters"),
        ("i->ii", (1,), "a label occurs twice in the result"),
        ("i->k", (1,), "occurs in no array"),
        ("...i->i", (2,), "has no `...` for the axes that it hides"),
    ],
)
def test_what_does_not_fit_is_refused(
    subscripts: str, ranks: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        explicit(subscripts, ranks)


def test_a_label_has_one_size_and_size_1_is_broadcast() -> None:
    assert sizes_of(("ij", "jk"), ((2, 3), (3, 4))) == {"i": 2, "j": 3, "k": 4}
    assert sizes_of(("i", "i"), ((1,), (5,))) == sizes_of(("i", "i"), ((5,), (1,))) == {"i": 5}
    with pytest.raises(ValueError, match="named j have the sizes 3 and 4"):
        sizes_of(("ij", "jk"), ((2, 3), (4, 5)))
    with pytest.raises(ValueError, match="two axes named i in 'ii' differ"):
        sizes_of(("ii",), ((2, 3),))
