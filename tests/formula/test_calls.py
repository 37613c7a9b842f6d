from __future__ import annotations

import pytest

from .writing import helps, mistakes, output, program


@pytest.mark.parametrize(
    ("text", "shape", "keywords"),
    [
        ("sum(x)", (), {"axis": None, "keepdims": False}),
        ("logsumexp(x, axis=None)", (), {"axis": None, "keepdims": False}),
        ("sum(x, axis=0)", (2,), {"axis": 0, "keepdims": False}),
        ("sum(x, 0, True)", (1, 2), {"axis": 0, "keepdims": True}),
        ("mean(x, axis=(0, 1))", (), {"axis": (0, 1), "keepdims": False}),
        ("reshape(x, (2, -1))", (2, 3), {"shape": (2, -1)}),
        ("clip(x, 0, 1)", (3, 2), {"min": 0, "max": 1}),
        ("concatenate([x, x], axis=1)", (3, 4), {"axis": 1}),
        ("stack([s, 2, pi])", (3,), {"axis": 0}),
        ("transpose(x)", (2, 3), {"axes": None}),
        ("softmax(x, axis=k)", (3, 2), {"axis": 0}),
        ("where(mask, x, 0)", (3, 2), {}),
        ("matmul(x1=x, x2=W)", (3, 4), {}),
    ],
)
def test_arguments_by_position_and_by_name(
    text: str, shape: tuple[int, ...], keywords: dict[str, object]
) -> None:
    node = output(text, k=0)
    assert (node.shape, node.keywords) == (shape, keywords)


def test_an_alias_is_the_row_that_it_names() -> None:
    assert output("absolute(s)").op == "abs"
    assert output("permute_dims(x, (1, 0))").op == "transpose"


@pytest.mark.parametrize(
    ("text", "told", "help"),
    [
        ("sun(x)", "GC905 1:1-4 unknown operation `sun`", "did you mean `sum`?"),
        (
            "quux(x)",
            "GC905 1:1-5 unknown operation `quux`",
            "`gradcheck ops` lists all",
        ),
        ("ln(s)", "GC905 1:1-3 unknown operation `ln`", "write log(x)"),
        (
            "sum(x, axs=0)",
            "GC904 1:8-13 `sum` has no `axs`",
            "did you mean `axis`? sum(x, axis=None, keepdims=False)",
        ),
        (
            "sum(x, dim=0)",
            "GC904 1:8-13 `sum` has no `dim`",
            "did you mean `axis`? sum(x, axis=None, keepdims=False)",
        ),
        ("sin()", "GC904 1:1-6 `sin` needs x", "sin(x)"),
        ("where(mask, x)", "GC904 1:1-15 `where` needs x2", "where(condition, x1, x2)"),
        ("reshape(x)", "GC904 1:1-11 `reshape` needs shape", "reshape(x, shape)"),
        ("sin(s, s)", "GC904 1:8-9 `sin` takes at most 1 argument", "sin(x)"),
        ("sum(x, 0, axis=1)", "GC904 1:11-17 `axis` is given twice", ""),
        ("s(2)", "GC905 1:1-2 `s` is a value and cannot be called", "to multiply, write s * (...)"),
        (
            "sum(x, axis=s)",
            "GC904 1:13-14 `axis` must be known before the run",
            "a number, a constant or a loop variable",
        ),
        ("max(x, x)", "GC904 1:8-9 `axis` must be a number", "for two values: maximum(a, b)"),
        (
            "clip(x, s, 1)",
            "GC904 1:9-10 `min` must be a number",
            "for arrays: minimum(maximum(x, low), high)",
        ),
        (
            "sum(x, keepdims=1)",
            "GC904 1:17-18 `keepdims` of sum must be True or False, not 1",
            "sum(x, axis=None, keepdims=False)",
        ),
        (
            "sum(x, axis=0.5)",
            "GC904 1:13-16 `axis` of sum must be a whole number or a tuple of them, not 0.5",
            "sum(x, axis=None, keepdims=False)",
        ),
        (
            "concatenate(x)",
            "GC904 1:13-14 `concatenate` needs a list of values",
            "write concatenate([a, b])",
        ),
        (
            "getitem(x, 0)",
            "GC905 1:1-8 unknown operation `getitem`",
            "write x[0, 1:3]",
        ),
        ("sum(*x)", "GC904 1:5-7 `*` before an argument is not part", "write them out"),
        ("sum(**x)", "GC904 1:1-9 `**` before an argument is not part", ""),
        ("sin(s)(s)", "GC904 1:1-10 only operations and functions can be called", ""),
        (
            "__import__('os')",
            "GC904 1:1-11 `__import__` is not part of the formula language",
            "a formula cannot reach the interpreter or any file",
        ),
        (
            "open(s)",
            "GC904 1:1-5 `open` is not part of the formula language",
            "a formula cannot reach the interpreter or any file",
        ),
    ],
)
def test_a_wrong_call_says_what_is_right(text: str, told: str, help: str) -> None:
    found = mistakes(text)
    assert found[0].startswith(told)
    assert helps(text)[0] == help


@pytest.mark.parametrize(
    ("text", "help"),
    [
        ("np.exp(x)", "write exp(x)"),
        ("torch.nn.functional.relu(x)", "write relu(x)"),
        ("math.sqrt(s)", "write sqrt(s)"),
        ("x.sum(axis=0)", "write sum(x, axis=0)"),
        ("tf.reduce_sum(x)", "write sum(x)"),
    ],
)
def test_calls_as_in_numpy_and_the_frameworks_say_what_to_write(text: str, help: str) -> None:
    assert helps(text) == [help]
    assert mistakes(text)[0].startswith("GC904")


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ('einsum("ij,jk->ik", x, W)', (3, 4)),
        ('einsum("ij,jk->ik", [x, W])', (3, 4)),
        ('einsum(x, W, subscripts="ij,jk->ik")', (3, 4)),
        ('einsum("ij,jk", x, W)', (3, 4)),
        ('einsum("...j,jk->...k", x, W)', (3, 4)),
        ('einsum("ij->", x)', ()),
        ('einsum("ij->ji", [x])', (2, 3)),
        ('einsum("ij,ij,j->i", x, x, v)', (3,)),
    ],
)
def test_a_text_stands_before_the_arrays(text: str, shape: tuple[int, ...]) -> None:
    assert output(text).shape == shape


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('einsum("ij,kj->ik", x, W)', "the axes named j have the sizes 2 and 4"),
        ('einsum("ij,jk->il", x, W)', "a label of the result of 'ij,jk->il' occurs in no array"),
        ('einsum("ij,jk", x)', "'ij,jk' is for 2 arrays, not for 1"),
        ('einsum("ij", x, W)', "'ij' is for 1 array, not for 2"),
        ('einsum("ijk->k", x)', "'ijk' does not fit an array of 2 axes"),
        ('einsum("ii->i", x)', "the two axes named i in 'ii' differ in size"),
        ('einsum("i1,jk->ik", x, W)', "subscripts are letters, `...`, `,` and `->`, not 'i1'"),
        ('einsum("ij,jk->iik", x, W)', "a label occurs twice in the result of 'ij,jk->iik'"),
    ],
)
def test_wrong_subscripts_say_what_is_wrong_with_them(text: str, told: str) -> None:
    (found,) = mistakes(text)
    assert found.startswith(f"GC906 1:1-{len(text) + 1} {text}: ")
    assert found.endswith(told)


@pytest.mark.parametrize(
    ("text", "told", "help"),
    [
        ('einsum("ij->ji")', "GC904 1:1-17 `einsum` needs x", "einsum(subscripts, x1, x2, ...)"),
        (
            'einsum("ij->i", x, subscripts="ij")',
            "GC904 1:8-15 a string is used where a number is needed",
            "a string is for a keyword",
        ),
        (
            'einsum("ij,jk->ik", x, "W")',
            "GC904 1:24-27 a string is used where a number is needed",
            "a string is for a keyword",
        ),
        ('mse(x, "mean")', "GC904 1:8-14 a string is used where a number is needed", ""),
    ],
)
def test_texts_and_arrays_are_not_confused(text: str, told: str, help: str) -> None:
    assert mistakes(text)[0] == told
    assert help in helps(text)[0]


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("split(x, 3)", [(1, 2)] * 3),
        ("split(x, (1,))", [(1, 2), (2, 2)]),
        ("split(x, 2, axis=-1)", [(3, 1)] * 2),
        ("topk(x, 1)", [(3, 1)] * 2),
        ("eigh(transpose(x) @ x)", [(2,), (2, 2)]),
        ("svd(x)", [(3, 2), (2,), (2, 2)]),
        ("qr(x)", [(3, 2), (2, 2)]),
        ("slogdet(transpose(x) @ x)", [(), ()]),
    ],
)
def test_calls_with_several_results(text: str, shapes: list[tuple[int, ...]]) -> None:
    found = [output(f"{text}[{i}] * s").shape for i in range(len(shapes))]
    assert found == shapes
    assert mistakes(f"{text}[{len(shapes)}]")[0].endswith(f"outside a list of {len(shapes)}")


@pytest.mark.parametrize(
    ("text", "told", "help"),
    [
        ("sum(svd(x))", "this call returns several values where one is needed", "take one: svd(x)"),
        ("split(x, 2)[0]", "split(x, 2): (3, 2): 3 elements do not make 2 equal parts", "split(x"),
        ("split(x, 0)[0]", "split(x, 0): (3, 2): 3 elements do not make 0 equal parts", "split(x"),
        ("split(x, 1, 5)[0]", "split(x, 1, 5): (3, 2): there is no axis 5", "valid: -2 to 1"),
        (
            "split(s, 1)[0]",
            "split(s, 1): (): there is no axis 0: the argument is a single number",
            "",
        ),
        ("split(x, s)[0]", "`sections` must be known before the run", "a constant"),
        ("split(x)[0]", "`split` needs sections", "split(x, sections, axis=0)"),
        (
            "split(x, 3.0)[0]",
            "`sections` of split must be a whole number or a tuple of them, not 3.0",
            "split(x, sections, axis=0)",
        ),
        ("split(x, 3, dim=0)[0]", "`split` has no `dim`", "did you mean `axis`?"),
        ("topk(v, 5)[0]", "topk(v, 5): (2,): there are no 5 elements on an axis of size 2", ""),
        ("eigh(x)[0]", "eigh(x): (3, 2): it takes square matrices, in the last two axes", ""),
        ("svd(x, 1)[0]", "`full_matrices` of svd must be True or False, not 1", "svd(x, full"),
        ("svd(x, full_matrices=True)[0]", "the rest is not unique", "full_matrices=False"),
        ("topk(v, 1)[1]", "the output has int values, which have no gradient", "floating"),
        ("egh(x)[0]", "unknown operation `egh`", "did you mean `eigh`?"),
        ("split + 1", "`split` is an operation, not a value", "call it: split(x)"),
        ("torch.split(x, 3)[0]", "operations are called by name only", "write split(x, 3)"),
        ("x.split(3)[0]", "operations are called by name only", "write split(x, 3)"),
    ],
)
def test_wrong_calls_with_several_results(text: str, told: str, help: str) -> None:
    assert told in mistakes(text)[0]
    assert help in helps(text)[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("take(x, v, 0)", "`indices` of take must be whole numbers"),
        ("embedding(v, x)", "`indices` of embedding must be whole numbers"),
        ("cross_entropy(x, x)", "`labels` of cross_entropy must be whole numbers"),
    ],
)
def test_a_float_cannot_be_an_index(text: str, told: str) -> None:
    (found,) = mistakes(text)
    assert found.endswith(told)
    name = told.split("`")[1]
    assert helps(text) == [f"an input of whole numbers: {name}: {{value: [0, 2, 1], dtype: int64}}"]


@pytest.mark.parametrize("text", ["linear(x, W, v)", "scaled_dot_product_attention(x, W, x)"])
def test_a_mismatch_inside_an_operation_is_told_in_the_words_of_the_one_that_meets_it(
    text: str,
) -> None:
    (found,) = mistakes(text)
    assert found.endswith(": the inner sizes 2 and 4 differ")


def test_arguments_of_a_wrong_call_are_looked_at_too() -> None:
    assert mistakes("np.exp(zz) + sun(yy)") == [
        "GC904 1:1-7 `.exp(...)`: operations are called by name only",
        "GC905 1:8-10 unknown name `zz`",
        "GC905 1:14-17 unknown operation `sun`",
        "GC905 1:18-20 unknown name `yy`",
    ]


def test_the_parts_of_a_list_have_places_of_their_own() -> None:
    built = program("stack([s, 2])")
    (constant,) = (node for node in built.nodes if node.op == "constant")
    assert (constant.span.column, constant.text) == (11, "2")


def test_a_list_of_numbers_is_an_array() -> None:
    assert output("take(v, [1, 0, 1])").shape == (3,)
    assert output("take(x, [[1, 0], [0, 2]], axis=0)").shape == (2, 2, 2)
    assert output("maximum(x, [1.5, s])").shape == (3, 2)
    (found,) = mistakes("maximum(x, [1.5, v])")
    assert found.startswith("GC906 1:12-20 [1.5, v]: (), (2,): all shapes must be equal")
