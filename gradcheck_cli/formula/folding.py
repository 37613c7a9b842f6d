"""Program -> formula text, with repeated statements as a loop: `for i in range(3):`.

Every statement is a template with holes for the names of other statements and inputs, and for the
numbers of indices. A block of statements repeats if the templates of all its turns are equal, and
each hole has the same value in every turn, or refers to the same statement of its own or the
previous turn. Numbers may grow by equal steps.

Later statements may use the values of all turns, as `stack([...])` does. The loop then collects
them in a list, `ys = [*ys, y]`, and those statements use `ys` or `ys[2]`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import count, pairwise

from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.formula.printing import Names, Printer

_HOLE = re.compile("([\x01\x02])(-?[0-9]+);")
_NODE, _NUMBER = "\x01", "\x02"
_CHARACTER = re.compile("[\x01\x02]")


def folded_statements(program: Program) -> str:
    """The whole formula. Parsing it gives the same program."""
    return "\n".join(_Writer(program).lines())


@dataclass(frozen=True, slots=True)
class _Statement:
    """`template` is the text with _NODE and _NUMBER as holes. A hole for a node holds the place of
    its statement, or a negative number for an input."""

    node: int
    template: str
    holes: tuple[int, ...]

    def kinds(self) -> list[str]:
        return _CHARACTER.findall(self.template)

    def nodes(self) -> list[int]:
        """The holes for nodes."""
        return [hole for kind, hole in zip(self.kinds(), self.holes, strict=True) if kind == _NODE]

    def holes_in(self, places: range) -> Iterator[int]:
        """The holes for nodes that hold one of these places."""
        for number, (kind, hole) in enumerate(zip(self.kinds(), self.holes, strict=True)):
            if kind == _NODE and hole in places:
                yield number

    def part(self, start: int, end: int) -> _Statement:
        """A part of the template as a statement that no node has."""
        before = len(_CHARACTER.findall(self.template[:start]))
        text = self.template[start:end]
        return _Statement(-1, text, self.holes[before : before + len(_CHARACTER.findall(text))])

    def replaced(self, start: int, end: int, text: str, holes: Sequence[int]) -> _Statement:
        """The statement with this text and its holes in the place of a part."""
        left, right = self.part(0, start), self.part(end, len(self.template))
        template = left.template + text + right.template
        return _Statement(self.node, template, (*left.holes, *holes, *right.holes))


@dataclass(frozen=True, slots=True)
class _List:
    """The values of `entry` in all turns of a loop. The holes are those of its first turn, and
    grow by `steps`. The last turn comes first if `backwards`."""

    entry: _Statement
    steps: tuple[int, ...]
    backwards: bool = False


@dataclass(slots=True)
class _Loop:
    """Statements `first` to `end`, in turns of `size` statements. A hole is identified by its
    statement in the turn and its place in the statement. `steps`: the steps of the numbers that
    grow. `carried`: the statement of the previous turn that gives the value of a hole. `initial`:
    the value of such a hole in the first turn. `lists`: what it collects, with the numbers that
    stand for lists in holes. `users`: later statements, in terms of these lists."""

    first: int
    size: int
    turns: int = 1
    steps: dict[tuple[int, int], int] = field(default_factory=dict)
    carried: dict[tuple[int, int], int] = field(default_factory=dict)
    initial: dict[int, int] = field(default_factory=dict)
    lists: dict[_List, int] = field(default_factory=dict)
    users: dict[int, _Statement] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.first + self.turns * self.size

    @property
    def early(self) -> range:
        """The statements whose values a later turn replaces."""
        return range(self.first, self.end - self.size)

    @property
    def saved(self) -> int:
        """A lower bound on the number of lines that the loop saves."""
        return (self.turns - 1) * self.size - 1 - len(self.initial) - 2 * len(self.lists)

    def turn_of(self, place: int) -> int | None:
        """The turn of the statement at a place; None if it is outside of the loop."""
        return (place - self.first) // self.size if self.first <= place < self.end else None

    def extend(self, statements: Sequence[_Statement]) -> None:
        """Adds as many turns as possible."""
        while self.end + self.size <= len(statements) and all(
            self._repeats(statements, line) for line in range(self.size)
        ):
            self.turns += 1

    def _repeats(self, statements: Sequence[_Statement], line: int) -> bool:
        one, next_ = (statements[self.end + line - back] for back in (self.size, 0))
        return one.template == next_.template and all(
            self.steps.setdefault((line, hole), now - before) == now - before
            if kind == _NUMBER
            else self._refers((line, hole), before, now)
            for hole, (kind, before, now) in enumerate(
                zip(one.kinds(), one.holes, next_.holes, strict=True)
            )
        )

    def _refers(self, hole: tuple[int, int], before: int, now: int) -> bool:
        """Whether the hole has the same value in both turns, or refers to the same line of its own
        turn, or of the previous turn. In the last case only lines from this one on are possible,
        because the loop has already given new values to the lines above."""
        if now < self.first:
            return now == before
        line = now - (self.end - self.size)
        if line >= self.size:
            return now - before == self.size
        if line < hole[0]:
            return False
        if self.turns > 1:
            return now - before == self.size and self.carried.get(hole) == line
        self.carried[hole] = line
        return before < self.first and self.initial.setdefault(line, before) == before

    def use_lists(self, place: int, one: _Statement, varying: set[int], free: int) -> None:
        """Writes a later statement in terms of lists. The holes `varying` hold values of several
        turns in statements like this one. `free` is the number of the first list."""
        while (found := self._stretch(one)) is not None:
            entries, start, end = found
            if one.template[start - 1] + one.template[end] == "[]":
                start, end, text = start - 1, end + 1, _NODE
            else:
                text = f"*{_NODE}"
            one = one.replaced(start, end, text, [self._number(entries, free)])
            varying = set(one.holes_in(self.early))
        for number, mark in reversed([*enumerate(_CHARACTER.finditer(one.template))]):
            hole = one.holes[number]
            turn = self.turn_of(hole) if number in varying else None
            if turn is not None:
                value = _Statement(-1, _NODE, (hole - turn * self.size,))
                values = self._number(_List(value, (self.size,)), free)
                one = one.replaced(*mark.span(), f"{_NODE}[{_NUMBER}]", [values, turn])
        self.users[place] = one

    def _number(self, one: _List, free: int) -> int:
        return self.lists.setdefault(one, free - len(self.lists))

    def _stretch(self, one: _Statement) -> tuple[_List, int, int] | None:
        """A list of the values of all turns inside of a statement, with its start and end."""
        for spans in _entries(one.template):
            for number in range(len(spans) - self.turns + 1):
                some = spans[number : number + self.turns]
                listed = self._list([one.part(*span) for span in some])
                if listed is not None:
                    return listed, some[0][0], some[-1][1]
        return None

    def _list(self, entries: Sequence[_Statement]) -> _List | None:
        """The list that has these entries; None if they are not equal but for their turns."""
        turns = [turn for hole in entries[0].nodes() if (turn := self.turn_of(hole)) is not None]
        backwards = any(turns)
        entries = entries[::-1] if backwards else entries
        first = entries[0]
        if not turns or any(one.template != first.template for one in entries):
            return None
        columns = [*zip(*(one.holes for one in entries), strict=True)]
        steps = tuple(column[1] - column[0] for column in columns)
        for kind, step, column in zip(first.kinds(), steps, columns, strict=True):
            if any(after - before != step for before, after in pairwise(column)):
                return None
            turn = self.turn_of(column[0])
            if kind == _NODE and (turn or step != (0 if turn is None else self.size)):
                return None
        return _List(first, steps, backwards)


class _Templates(Printer):
    """Writes holes in place of names and of the numbers of indices."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.definitions = list(self.functions())

    def named(self, index: int) -> str:
        return ""  # until it is known which statements share a name

    def reference(self, index: int) -> str:
        return f"{_NODE}{index};"

    def index_number(self, value: int) -> str:
        return f"{_NUMBER}{value};"

    def statements(self) -> list[_Statement]:
        """All assignments, and the output."""
        output = self._program.output
        indices = [*self._names, *([] if output in self._names else [output])]
        place_of = {index: place for place, index in enumerate(indices)}
        statements = []
        for index in indices:
            text = self.defined(index)
            holes = [
                int(number) if kind == _NUMBER else place_of.get(int(number), -1 - int(number))
                for kind, number in _HOLE.findall(text)
            ]
            statements.append(_Statement(index, _HOLE.sub(r"\1", text), tuple(holes)))
        return statements


class _Writer:
    def __init__(self, program: Program) -> None:
        templates = _Templates(program)
        self._definitions = templates.definitions
        self._statements = templates.statements()
        self._output = [one.node for one in self._statements].index(program.output)
        self._uses = Counter(place for one in self._statements for place in one.nodes())
        self._uses[self._output] += 1
        self._program = program
        self._free = -1 - len(program.nodes)  # below the numbers of inputs
        self._loops = list(self._find_loops())
        self._names = {-1 - index: name for name, index in program.inputs.items()}
        self._name_statements()

    def lines(self) -> Iterator[str]:
        yield from self._definitions
        place = 0
        for loop in self._loops:
            yield from map(self._line, range(place, loop.first))
            yield from self._loop(loop)
            place = loop.end
        yield from map(self._line, range(place, len(self._statements)))
        if place > self._output or self._output + 1 < len(self._statements):
            yield self._names[self._output]

    def _line(self, place: int) -> str:
        name, text = self._names.get(place), self._text(place)
        return text if name is None else f"{name} = {text}"

    def _loop(self, loop: _Loop) -> Iterator[str]:
        variable = next(name for name in self._variables() if name not in self._names.values())
        for line, place in loop.initial.items():
            name = self._names[loop.first + line]
            if name != self._names[place]:
                yield f"{name} = {self._names[place]}"
        for number in loop.lists.values():
            yield f"{self._names[number]} = []"
        yield f"for {variable} in range({loop.turns}):"
        for line in range(loop.size):
            place = loop.first + line
            yield f"    {self._names[place]} = {self._text(place, loop, variable)}"
        for one, number in loop.lists.items():
            name, entry = self._names[number], self._entry(one, variable)
            entries = f"{entry}, *{name}" if one.backwards else f"*{name}, {entry}"
            yield f"    {name} = [{entries}]"

    def _variables(self) -> Iterator[str]:
        yield from "ijkn"
        for number in count(1):
            yield f"i{number}"

    def _text(self, place: int, loop: _Loop | None = None, variable: str = "") -> str:
        """The statement with its holes filled."""
        one = self._statements[place]
        texts = []
        for hole, (kind, value) in enumerate(zip(one.kinds(), one.holes, strict=True)):
            at = (place - loop.first, hole) if loop is not None else None
            if loop is None or at is None:
                texts.append(self._names[value] if kind == _NODE else str(value))
            elif kind == _NUMBER:
                texts.append(_linear(value, loop.steps[at], variable))
            else:
                before = loop.carried.get(at)
                texts.append(self._names[value if before is None else loop.first + before])
        return _filled(one.template, texts)

    def _entry(self, one: _List, variable: str) -> str:
        """What a list takes from a turn."""
        return _filled(
            one.entry.template,
            [
                self._names[hole] if kind == _NODE else _linear(hole, step, variable)
                for kind, hole, step in zip(
                    one.entry.kinds(), one.entry.holes, one.steps, strict=True
                )
            ],
        )

    def _name_statements(self) -> None:
        """Names each statement. All turns of a loop share one name, and so does their initial value
        if nothing else uses it."""
        naming = Names(self._program)
        first = {
            loop.first + turn * loop.size + line: loop.first + line
            for loop in self._loops
            for turn in range(loop.turns)
            for line in range(loop.size)
        }
        for loop in self._loops:
            for line, place in loop.initial.items():
                if place >= 0 and place not in first and self._only_begins(loop, line, place):
                    first[place] = loop.first + line
        for place, one in enumerate(self._statements):
            node = self._program.nodes[one.node]
            head = first.get(place, place)
            if head == place == self._output and node.name is None:
                continue  # the last line
            if head not in self._names:
                head_node = self._statements[head].node
                self._names[head] = naming.name(self._program.nodes[head_node])
            self._names[place] = self._names[head]
        for loop in self._loops:
            for kept, number in loop.lists.items():
                place = next(hole for hole in kept.entry.nodes() if loop.turn_of(hole) == 0)
                self._names[number] = naming.unique(f"{self._names[place]}s")

    def _only_begins(self, loop: _Loop, line: int, place: int) -> bool:
        """Whether a value is used only as the initial value of this line."""
        reads = sum(before == line for before in loop.carried.values())
        others = sum(initial == place for initial in loop.initial.values())
        return self._uses[place] == reads and others == 1

    def _find_loops(self) -> Iterator[_Loop]:
        """The loops in order."""
        place = 0
        while place < len(self._statements):
            loop = self._shortest(place)
            if loop is None:
                place += 1
                continue
            later = map(self._shortest, range(place + 1, place + loop.size))
            loop = max([loop, *filter(None, later)], key=lambda one: (one.saved, one.first))
            self._free -= len(loop.lists)
            for user, one in loop.users.items():
                self._statements[user] = one
            yield loop
            place = loop.end

    def _shortest(self, first: int) -> _Loop | None:
        """The loop with the shortest turns that begins with this statement and saves lines."""
        for size in range(1, (len(self._statements) - first) // 2 + 1):
            if self._statements[first].template != self._statements[first + size].template:
                continue
            loop = _Loop(first, size)
            loop.extend(self._statements)
            if loop.saved > 0 and self._collects(loop) and loop.saved > 0:
                return loop
        return None

    def _collects(self, loop: _Loop) -> bool:
        """Whether the loop keeps what is used of its turns afterwards: its last values, and those
        that it collects in lists. What it collects has the same name in all turns."""
        if self._output in loop.early:
            return False
        later = [*enumerate(self._statements)][loop.end :]
        varying: dict[str, set[int]] = {}
        for _, one in later:
            if holes := set(one.holes_in(loop.early)):
                varying.setdefault(one.template, set()).update(holes)
        if varying and not self._has_names(loop):
            return False
        for place, one in later:
            if one.template in varying:
                loop.use_lists(place, one, varying[one.template], self._free)
        return True

    def _has_names(self, loop: _Loop) -> bool:
        """Whether each line has the same name in all turns, or none."""
        names = [self._program.nodes[one.node].name for one in self._statements]
        return all(
            len(set(names[loop.first + line : loop.end : loop.size])) == 1
            for line in range(loop.size)
        )


def _linear(start: int, step: int, variable: str) -> str:
    """The text of a number that grows by equal steps."""
    if step == 0:
        return str(start)
    term = variable if abs(step) == 1 else f"{abs(step)} * {variable}"
    if step < 0:
        return f"{start} - {term}"
    if start == 0:
        return term
    return f"{term} + {start}" if start > 0 else f"{term} - {-start}"


def _filled(template: str, texts: Sequence[str]) -> str:
    """The template with these texts in its holes."""
    filled = iter(texts)
    return _CHARACTER.sub(lambda _: next(filled), template)


def _entries(template: str) -> Iterator[list[tuple[int, int]]]:
    """The start and end of each entry of each list in a template. An index is no list."""
    opened: list[tuple[bool, list[int]]] = []  # whether it is a list, and where entries start
    for place, character in enumerate(template):
        if character in "([":
            is_list = character == "[" and template[place - 1 : place] in ("", "(", "[", " ")
            opened.append((is_list, [place + 1]))
        elif character == "," and opened:
            opened[-1][1].append(place + 2)
        elif character in ")]":
            is_list, starts = opened.pop()
            if is_list:
                yield [*zip(starts, [*(start - 2 for start in starts[1:]), place], strict=True)]
