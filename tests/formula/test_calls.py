from __future__ import annotations

import pytest

from gradcheck_cli.domain.keywords import CHOICES, KEYWORDS
from gradcheck_cli.formula import Argument, parse
from gradcheck_cli.formula.calls import usage
from reference_engine.op import REQUIRED, SEVERAL, TABLE, Op, Several, find, find_several
from tests.every import by_family

from .writing import SHAPES, helps, mistakes, output, program

INPUTS = {**SHAPES, "A": Argument((3, 3)), "images": Argument((2, 3, 6, 6))}


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


def told(text: str) -> tuple[str, str]:
    """The only mistake of a formula, and its help."""
    (error,) = parse(text, inputs=INPUTS).errors
    return f"{error.code} {error.span.column}-{error.span.end_column} {error.message}", error.help


def test_every_keyword_of_the_table_has_a_type() -> None:
    rows = [row for row in (*TABLE.values(), *SEVERAL.values()) if row.name != "getitem"]
    assert {name for row in rows for name in row.keywords} <= KEYWORDS.keys()


def test_a_word_that_may_be_chosen_is_a_text_with_a_default_among_the_choices() -> None:
    assert {KEYWORDS[name] for name in CHOICES} == {"text"}
    for row in TABLE.values():
        for name, words in CHOICES.items():
            assert row.keywords.get(name, words[0]) in words, row.name


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ('mse(x, x, reduction="sum")', {"reduction": "sum"}),
        ('mse(x, x, "none")', {"reduction": "none"}),
        ("var(x, correction=1)", {"axis": None, "correction": 1, "keepdims": False}),
        ("norm(x, 1, axis=0)", {"ord": 1, "axis": 0, "keepdims": False}),
        ("norm(x, ord=inf)", {"ord": float("inf"), "axis": None, "keepdims": False}),
        ("clip(x, min=None, max=1)", {"min": None, "max": 1}),
        ("max_pool2d(images, (2, 3))", {"kernel_size": (2, 3), "stride": None, "padding": 0}),
        ("pad(x, ((1, 0), (0, 2)))", {"pad_width": ((1, 0), (0, 2)), "value": 0.0}),
        ("sort(x, descending=True)", {"axis": -1, "descending": True}),
        ("softmax(x, axis=k - 1)", {"axis": 0}),
    ],
)
def test_what_fits_is_taken_as_it_stands(text: str, given: dict[str, object]) -> None:
    parsed = parse(text, inputs=INPUTS, constants={"k": 1})
    assert parsed.errors == ()
    assert parsed.program is not None
    assert parsed.program.result.keywords == given


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("matrix_power(A, 0.5)", "17-20 `n` of matrix_power must be a whole number, not 0.5"),
        ("matrix_power(A, True)", "17-21 `n` of matrix_power must be a whole number, not True"),
        (
            'softmax(x, axis="last")',
            '17-23 `axis` of softmax must be a whole number or a tuple of them, not "last"',
        ),
        (
            "softmax(x, axis=None)",
            "17-21 `axis` of softmax must be a whole number or a tuple of them, not None",
        ),
        (
            "max_pool2d(images, 2.5)",
            "20-23 `kernel_size` of max_pool2d must be a whole number or a tuple of them, not 2.5",
        ),
        (
            "pad(x, (1.5, 0))",
            "8-16 `pad_width` of pad must be a whole number, a pair, or a pair for each axis, "
            "not (1.5, 0)",
        ),
        ("roll(x, 10**30)", f"9-15 `shift` of roll must be smaller than 2**62, not {10**30}"),
        (
            "max_pool2d(images, (2, 2**62))",
            f"20-30 `kernel_size` of max_pool2d must be smaller than 2**62, not (2, {2**62})",
        ),
        ('gelu(x, "tanh")', '9-15 `approximate` of gelu must be True or False, not "tanh"'),
        ("sort(x, descending=1)", "20-21 `descending` of sort must be True or False, not 1"),
        ('var(x, correction="n")', '19-22 `correction` of var must be a number, not "n"'),
        ("norm(x, ord=True)", "13-17 `ord` of norm must be a number, not True"),
        ("clip(x, min=(0, 1))", "13-19 `min` of clip must be a number, not (0, 1)"),
        (
            "mse(x, x, reduction=1)",
            '21-22 `reduction` of mse must be "mean", "sum" or "none", not 1',
        ),
        ("einsum(1, x)", '8-9 `subscripts` of einsum must be a string such as "ij,jk->ik", not 1'),
    ],
)
def test_a_value_of_the_wrong_type_is_told_at_its_place(text: str, mistake: str) -> None:
    assert told(text)[0] == f"GC904 {mistake}"


def test_the_help_is_the_whole_call() -> None:
    assert told("sort(x, descending=1)")[1] == "sort(x, axis=-1, descending=False)"
    assert told('gelu(x, "tanh")')[1] == "gelu(x, approximate=False)"


def test_a_word_that_is_no_choice_gets_the_nearest() -> None:
    assert told('mse(x, x, reduction="avg")') == (
        'GC904 21-26 `reduction` of mse must be "mean", "sum" or "none", not "avg"',
        "mse(x, y, reduction='mean')",
    )
    assert told('mse(x, x, reduction="summ")')[1].startswith("did you mean `sum`?")


def test_values_of_the_run_cannot_be_keywords() -> None:
    assert mistakes("softmax(x, axis=s)") == ["GC904 1:17-18 `axis` must be known before the run"]
    assert mistakes("einsum(x, W)") == ["GC904 1:8-9 `subscripts` of einsum must be a string"]
    assert mistakes("mse(x, x, reduction=mean)") == [
        "GC905 1:21-25 `mean` is an operation, not a value"
    ]
    assert mistakes("mse(x, x, reduction=x)") == [
        "GC904 1:21-22 `reduction` of mse must be a string"
    ]


def test_frameworks_names_lead_to_ours() -> None:
    assert helps("var(x, ddof=1)")[0].startswith("did you mean `correction`?")
    assert helps("sum(x, keepdim=True)")[0].startswith("did you mean `keepdims`?")
    assert helps("layer_norm(x, v, v, epsilon=1)")[0].startswith("did you mean `eps`?")
    assert helps("norm(x, p=1)")[0].startswith("did you mean `ord`?")


def test_the_dtype_is_that_of_the_run_and_cannot_be_given() -> None:
    assert told("ones((2,), dtype=1) * x") == ("GC904 12-19 `ones` has no `dtype`", "ones(shape)")


HUGE = ("10**20", "-(10**20)", "2**63", "-2**63", "2**62", "inf", "nan", "True", "None", '"sum"')


@by_family(TABLE.keys() - {"getitem"})
def test_no_number_that_is_known_before_the_run_breaks_the_reader(name: str) -> None:
    every_number_is_read_or_refused(TABLE[name])


@pytest.mark.parametrize("name", SEVERAL)
def test_nor_where_there_are_several_results(name: str) -> None:
    every_number_is_read_or_refused(SEVERAL[name])


def every_number_is_read_or_refused(row: Op | Several) -> None:
    needed = {k: "2" for k, default in row.keywords.items() if default is REQUIRED}
    for keyword in row.keywords.keys() - {"dtype"}:
        for array in ("v", "n", "3"):
            arrays = [f"[{array}]" if one.startswith("*") else array for one in row.arrays]
            for value in HUGE:
                chosen = {**needed, keyword: value}
                named = [f"{k}={v}" for k, v in chosen.items()]
                parsed = parse(f"{row.name}({', '.join(arrays + named)})", inputs=INPUTS)
                assert all(error.code.startswith("GC9") for error in parsed.errors)


@pytest.mark.parametrize(
    ("text", "keyword"), [("clip(3, min=10**20)", "min"), ("hardtanh(2, max=10**20)", "max")]
)
def test_a_whole_number_beyond_64_bits_is_held_as_a_constant_is(text: str, keyword: str) -> None:
    (node,) = (node for node in program(f"s * {text}").nodes if keyword in node.keywords)
    assert node.keywords[keyword] == 1e20
    assert isinstance(node.keywords[keyword], float)


def test_bounds_in_the_wrong_order_are_a_mistake_where_frameworks_refuse_or_differ() -> None:
    (told,) = mistakes("s * hardtanh(s, min=2)")
    assert "min is 2, which is more than max, 1" in told


@pytest.mark.parametrize("value", ["10**20", "inf", "-inf"])
def test_whole_numbers_are_filled_with_whole_numbers_of_64_bits(value: str) -> None:
    (told,) = mistakes(f"v * full_like(n, {value})")
    assert "x holds whole numbers of 64 bits" in told
    assert output(f"full_like(v, {value})").shape == (2,)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("sum", "sum(x, axis=None, keepdims=False)"),
        ("stack", "stack([x1, x2, ...], axis=0)"),
        ("einsum", "einsum(subscripts, x1, x2, ...)"),
        ("split", "split(x, sections, axis=0)"),
        ("mse", "mse(x, y, reduction='mean')"),
    ],
)
def test_a_signature_shows_arrays_and_defaults(name: str, written: str) -> None:
    row = find(name) or find_several(name)
    assert row is not None
    assert usage(row) == written
