from __future__ import annotations

import pytest

from .writing import helps, mistakes, output, program


@pytest.mark.parametrize(
    ("text", "shape", "keywords"),
    [
        ("sum(x)", (), {"axis": None, "keepdims": False}),
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
        ("max(x, x)", "GC904 1:8-9 `axis` must be a number", "of two values: maximum(a, b)"),
        (
            "clip(x, s, 1)",
            "GC904 1:9-10 `min` must be a number",
            "with arrays: minimum(maximum(x, low), high)",
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


def test_arguments_of_a_wrong_call_are_looked_at_too() -> None:
    assert mistakes("np.exp(zz) + sun(yy)") == [
        "GC904 1:1-7 `.exp(...)`: operations are called by name alone",
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
