"""Our dataclass does what that of the standard library does."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest

from gradcheck_cli.domain.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Point:
    """Every kind of field."""

    x: float
    name: str = "here"
    notes: list[str] = field(default_factory=list)
    secret: int = field(default=3, repr=False, compare=False)
    late: int = field(init=False, repr=False, compare=False)
    last: bool = field(default=False, kw_only=True)


@dataclass(slots=True)
class Counter:
    """One that changes."""

    count: int = 0


@dataclass(frozen=True)
class Name:
    """One that can be a key, and has a repr of its own."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(eq=False)
class Node:
    """Compared by identity; may hold itself."""

    next: Any = None


def test_arguments_and_defaults() -> None:
    point = Point(1.0, "there", last=True)
    assert (point.x, point.name, point.notes, point.secret, point.last) == (1, "there", [], 3, True)
    assert point.notes is not Point(1.0).notes


@pytest.mark.parametrize("arguments", [(), (1.0, "a", [], 3, True)])
def test_wrong_arguments_are_refused_with_the_name_of_the_class(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match=r"Point\.__init__\(\)"):
        Point(*arguments)


def test_any_name_may_be_that_of_a_field() -> None:
    @dataclass(frozen=True)
    class Names:
        put: int
        missing: list[int] = field(default_factory=list)
        fields: int = 3

    assert repr(Names(1)).endswith("Names(put=1, missing=[], fields=3)")


def test_fields_replace_and_patterns() -> None:
    names = ["x", "name", "notes", "secret", "late", "last"]
    assert [one.name for one in dataclasses.fields(Point)] == names
    with pytest.raises(ValueError, match="late"):
        dataclasses.replace(Point(1.0), late=2)
    assert dataclasses.replace(Name("a"), text="b") == Name("b")
    match Counter(4):
        case Counter(count):
            assert count == 4


def test_equal_where_class_and_compared_fields_are() -> None:
    assert Point(1.0) == Point(1.0, secret=4)
    assert Point(1.0) != Point(2.0)
    assert Name("a") != Counter(1)
    assert {Name("a"): 1}[Name("a")] == 1
    assert Node() != Node()
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter())


def test_a_repr_shows_the_fields_and_ends() -> None:
    assert repr(Counter(2)) == "Counter(count=2)"
    assert repr(Name("as it says")) == "as it says"
    node = Node()
    node.next = node
    assert repr(node) == "Node(next=...)"


def test_what_is_frozen_stays() -> None:
    point = Point(1.0)
    with pytest.raises(FrozenInstanceError, match="x"):
        point.x = 2.0  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="name"):
        del point.name  # type: ignore[misc]
    counter = Counter()
    counter.count = 2
    assert counter == Counter(2)


@pytest.mark.parametrize("value", [Name("a"), Counter(3)])
def test_copies_and_pickles_are_equal(value: object) -> None:
    assert copy.copy(value) == copy.deepcopy(value) == pickle.loads(pickle.dumps(value)) == value


def test_post_init_runs_when_all_fields_are_set() -> None:
    @dataclass(frozen=True, slots=True)
    class Sum:
        terms: tuple[int, ...]
        total: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", sum(self.terms))

    assert Sum((1, 2)).total == 3


def test_the_first_instance_replaces_no_attribute_of_the_class() -> None:
    @dataclass(frozen=True)
    class Base:
        size: int = 2

    @dataclass(frozen=True)
    class Derived(Base):
        def __init__(self) -> None:
            super().__init__(5)

    before = dict(vars(Base))
    assert (Derived().size, Base().size, Base(7).size) == (5, 2, 7)
    assert all(vars(Base)[name] is value for name, value in before.items())


def test_a_copy_with_some_fields_changed() -> None:
    @dataclass(frozen=True, slots=True)
    class Place:
        row: int
        column: int = 0
        notes: list[str] = field(default_factory=list)

    @dataclass
    class Alone:
        value: int

    place = Place(1, notes=["kept"])
    moved = replace(place, column=2)
    assert (moved.row, moved.column, moved.notes) == (1, 2, ["kept"])
    assert moved.notes is place.notes
    assert replace(Alone(1), value=3).value == 3
    assert replace(place) == place
    for change in (replace, dataclasses.replace):
        with pytest.raises(TypeError, match="unexpected keyword argument 'depth'"):
            change(place, depth=1)


def test_a_field_that_is_not_given_is_refused_as_the_standard_library_does() -> None:
    point = Point(1.0)
    object.__setattr__(point, "late", 7)
    for change in (replace, dataclasses.replace):
        with pytest.raises((ValueError, TypeError)):
            change(point, late=8)
