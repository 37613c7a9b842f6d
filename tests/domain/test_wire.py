"""What a worker sends is read without trust: plain values and classes of the domain, or nothing."""

from __future__ import annotations

import json
import pickle
import random
import struct
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, get_args, get_type_hints

import numpy as np
import pytest
from typing_extensions import TypeAliasType

from gradcheck_cli.domain import wire
from gradcheck_cli.domain.evaluation import Evaluation, Failure, Gradient, Operation, Trace
from gradcheck_cli.domain.layer import LayerAnswer
from gradcheck_cli.domain.place import Place, Source, Span
from gradcheck_cli.domain.program import Node
from gradcheck_cli.domain.report import Check, Finding, Pass, Reading
from gradcheck_cli.domain.truth import Truth, TruthBlock

SPAN = Span(1, 2, 1, 5)
SOURCE = Source("layer.py", "def layer(x):\n    return x\n" * 50)
PLACE = Place(SOURCE, SPAN, "x")
OPERATION = Operation("sin", "forward", 0, (), (1.0,), (1.0,), 1.0, 1.0, 0.5, PLACE)
BLOCK = TruthBlock.of(np.array([[1.0, -0.0], [np.nan, np.inf]]), np.full((2, 2), 5e-324))
ANSWERS = (
    None,
    1.5,
    float("-inf"),
    10**30,
    "a name that is no UTF-8: \udcff",
    Failure("raised", "it broke", "a traceback", 3, PLACE),
    Evaluation(
        "torch",
        "float32",
        "float32",
        "reverse",
        np.float64(2.0),
        {"x": Gradient(np.ones((2, 0)), "float32"), "y": Gradient(None)},
        trace=Trace({1: np.arange(3)}, {}, (OPERATION,) * 40),
    ),
    LayerAnswer(
        checks=(
            Check(
                "torch",
                "float64",
                "reverse",
                "x",
                "passed",
                max_ulps=np.float64(0.25),
                passed_by=(Pass("kink", 2), Pass("zero", 1, np.float64(1e16))),
            ),
        ),
        findings=(Finding("GC101", "error", "wrong", SPAN, place=PLACE),),
        readings=(Reading("torch", "float64", "reverse", 0, [1.0], {"x": [[1.0]]}),),
        notes=("a note",),
    ),
    Truth("float64", np.array(1.0), np.array(0.0), {("reverse", "x"): BLOCK}),
    Node("getitem", (0,), {"index": (slice(None, 2), ..., None, 1)}, SPAN, "x[:2, ..., None, 1]"),
)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return (
            one.dtype == other.dtype
            and one.shape == other.shape
            and one.tobytes() == other.tobytes()
        )
    if isinstance(one, tuple | list):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if hasattr(one, "__dataclass_fields__"):
        pairs = [(getattr(one, f.name), getattr(other, f.name)) for f in fields(one)]
        return type(one) is type(other) and all(same(*pair) for pair in pairs)
    return type(one) is type(other) and (one == other or one != one)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_answers_arrive_as_they_left(answer: Any) -> None:
    assert same(answer, wire.decode(wire.encode(answer)))


def test_arrays_that_arrive_can_be_written_to() -> None:
    wire.decode(wire.encode(np.zeros(3)))[:] = 1.0


def test_what_stands_in_many_places_travels_once() -> None:
    """The text of a file is part of every place in it."""
    assert len(wire.encode(ANSWERS[6])) < 3 * len(SOURCE.text) + 10_000


class Text(str):
    """Of a layer, perhaps."""


def test_subclasses_of_plain_values_arrive_as_those() -> None:
    found = wire.decode(wire.encode(Failure("raised", Text("words"))))
    assert type(found.message) is str


class Evil:
    def __reduce__(self) -> Any:
        return print, ("it ran",)


@pytest.mark.parametrize("value", [Evil(), lambda: None, Evil, np.array([Evil()]), {1: {2}}, 1j])
def test_what_is_none_of_ours_does_not_travel(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be sent"):
        wire.encode((1, [value]))
    with pytest.raises(TypeError, match="cannot be sent"):
        wire.encode(Failure("raised", value))


@pytest.mark.parametrize(
    "wrong",
    [
        Failure("raised", 1),  # type: ignore[arg-type]
        Failure("well", "words"),  # type: ignore[arg-type]
        LayerAnswer(checks=("passed",)),  # type: ignore[arg-type]
        LayerAnswer(nondeterministic=0),  # type: ignore[arg-type]
        replace(ANSWERS[8], output=None),
        Truth("float64", np.array(1.0), np.array(0.0), {"x": BLOCK}),  # type: ignore[dict-item]
    ],
    ids=str,
)
def test_each_field_is_what_its_annotation_says(wrong: Any) -> None:
    with pytest.raises(wire.Malformed):
        wire.decode(wire.encode(wrong))


def message(root: Any, objects: Any = (), shapes: Any = (), numbers: bytes = b"") -> bytes:
    head = json.dumps([root, objects, shapes]).encode()
    return struct.pack("!Q", len(head)) + head + numbers


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff" * 64,
        pickle.dumps(Evil()),
        message(["o", 0]),
        message(["o", -1], [["Failure", ["raised", "", "", None, None]]]),
        message(["o", 0], [["Popen", [["l", "true"]]]]),
        message(["o", 0], [["Failure", ["raised"]]]),
        message(["a", 0], (), [["object", [1]]], b"\0" * 8),
        message(["a", 0], (), [["float64", [10**12]]], b"\0" * 8),
        message(["a", 0], (), [["float64", [-1]]], b""),
        message(["a", 0], (), [["float64", [1]]], b"\0" * 9),
        message(["m", ["l"], 1]),
        message(["x"]),
        message({"o": 1}),
        struct.pack("!Q", 1 << 20) + b"[" * 100_000,
        message([]),
    ],
    ids=lambda body: repr(bytes(body[:40])),
)
def test_what_is_no_answer_is_refused(body: bytes) -> None:
    with pytest.raises(wire.Malformed):
        wire.decode(body)


def test_bytes_that_are_flipped_give_an_answer_or_are_refused() -> None:
    """Whatever arrives: plain values, our classes, or Malformed; nothing else is raised."""
    seed = 20260
    random_bytes = random.Random(seed)
    whole = wire.encode(ANSWERS[6])
    for _ in range(400):
        body = bytearray(whole)
        for _ in range(random_bytes.randint(1, 4)):
            body[random_bytes.randrange(min(len(body), 1500))] = random_bytes.randrange(256)
        with suppress(wire.Malformed):
            wire.decode(bytes(body[: random_bytes.choice((None, 100, -8))]))


def reached(hint: Any, seen: set[str]) -> set[str]:
    """The names of the dataclasses that a value of this type may hold."""
    for part in get_args(hint):
        reached(part, seen)
    if isinstance(hint, type) and is_dataclass(hint) and hint.__name__ not in seen:
        seen.add(hint.__name__)
        names = wire._Names()
        for one in get_type_hints(hint, localns=names).values():
            reached(one, seen)
    return seen


def test_arrays_are_known_by_an_alias_of_a_type_statement_as_well() -> None:
    scalar = TypeVar("scalar", bound=np.generic)
    alias = TypeAliasType(
        "NDArray", np.ndarray[tuple[int, ...], np.dtype[scalar]], type_params=(scalar,)
    )  # NumPy 2.5 on Python 3.12: type NDArray[...] = ndarray[...]
    check = wire._check(alias[Any])
    assert check(np.ones(2))
    assert not check([1.0, 1.0])


def test_whatever_an_answer_may_hold_can_travel() -> None:
    kept_here = {"FloatFormat"}
    for answer in (Evaluation, LayerAnswer, Truth):
        assert reached(answer, set()) - kept_here <= set(wire._MODULES), answer
