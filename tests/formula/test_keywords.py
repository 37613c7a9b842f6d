from __future__ import annotations

import pytest

from gradcheck_cli.domain.keywords import CHOICES, KEYWORDS
from gradcheck_cli.formula import Argument, parse
from reference_engine.op import REQUIRED, SEVERAL, TABLE, Op, Several
from tests.every import by_family

from .writing import SHAPES, helps, mistakes, output, program

INPUTS = {**SHAPES, "A": Argument((3, 3)), "images": Argument((2, 3, 6, 6))}


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
    assert parsed.program.nodes[parsed.program.output].keywords == given


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


@pytest.mark.parametrize("text", ["clip(3, min=10**20)", "hardtanh(2, min=10**20)"])
def test_a_whole_number_beyond_64_bits_is_held_as_a_constant_is(text: str) -> None:
    (node,) = (node for node in program(f"s * {text}").nodes if "min" in node.keywords)
    assert node.keywords["min"] == 1e20
    assert isinstance(node.keywords["min"], float)


@pytest.mark.parametrize("value", ["10**20", "inf", "-inf"])
def test_whole_numbers_are_filled_with_whole_numbers_of_64_bits(value: str) -> None:
    (told,) = mistakes(f"v * full_like(n, {value})")
    assert "x holds whole numbers of 64 bits" in told
    assert output(f"full_like(v, {value})").shape == (2,)
