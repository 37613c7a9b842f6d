"""Propose candidates to replace an unstable formula: up to three rewrites of the catalogue in a
row, and the derivatives of the blamed operations in their stable form. Nothing is run here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.fixes import Candidate
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.program import CONSTANT, CUSTOM, INPUT, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.explain.algebra.building import ExprBuilder
from gradcheck_cli.explain.algebra.expressions import Expr, ExprPool, ShapeMismatch, ordered
from gradcheck_cli.explain.fixes.custom_gradients import NotStated, stable
from gradcheck_cli.explain.rewrites import CATALOGUE
from gradcheck_cli.explain.rewrites.rule import Proposal, Site
from gradcheck_cli.formula.printing import expression, statements
from gradcheck_cli.formula.program import used_inputs
from gradcheck_cli.truth.plain import PlainFunction, inlined

FAR = 6  # the most operations between a blamed one and a rewrite
NEXT = 3  # the most operations between a rewrite and the next one
SMALL = 30  # the most nodes of a program in which every place counts as near
WIDTHS = (60, 16, 8)  # programs to rewrite further, by the number of rewrites so far
MOST = 40  # the most candidates; screening one takes about a millisecond
ENOUGH = 3 * MOST  # programs with several rewrites; the nearest of them are tried
# Nodes of all candidates together: each one is a whole program, of perhaps 10^5 nodes.
AFFORDABLE = 40_000
FEWEST = 4
PLACES = 200  # the most places for rewrites in one program
DEEP = 400  # the most nodes of a program that is rewritten more than once
CHAIN = 8  # the most rewrites in a row, each leaving the shortest program
LONG = 90  # the most characters of a formula on one line


@dataclass(frozen=True, slots=True)
class _Rewritten:
    root: Expr
    new: Expr
    steps: tuple[Proposal, ...]
    distance: int

    @property
    def ends(self) -> bool:
        """Whether no rewrite may follow."""
        return any(step.rule.last or step.rule.broad for step in self.steps)


def propose(
    program: Program, dtype: str, values: Mapping[str, Array], blamed: Sequence[int]
) -> tuple[Candidate, ...]:
    """Candidates for a program that is unstable at `values`, nearest to the nodes in `blamed`
    first. Without blamed nodes, the whole program is searched."""
    search = _Search(program, dtype, values, blamed)
    return tuple(search.candidates())


class _Search:
    def __init__(
        self, program: Program, dtype: str, values: Mapping[str, Array], blamed: Sequence[int]
    ) -> None:
        self._program = program
        self._values = values
        self._dtype = dtype
        self._forest = ExprPool(program)
        self._workshop = ExprBuilder(self._forest)
        self._blamed = [self._forest.of_node[i] for i in blamed] or [self._forest.output]
        self._everywhere = not blamed
        count = len(program.nodes)
        self._most = min(MOST, max(FEWEST, AFFORDABLE // count))
        self._widths = WIDTHS if count <= DEEP else WIDTHS[:1]
        self._known: dict[tuple[int, bool], tuple[Proposal, ...]] = {}
        self._held: dict[int, bool] = {}  # conditions at the failing point
        self._numbers: list[Array] | None = None
        self._at_place = dict[tuple[str, str, Span], list[Expr]]()
        for expr, node in zip(self._forest.of_node, program.nodes, strict=True):
            if node.source is not None:
                self._at_place.setdefault((node.op, node.source.path, node.span), []).append(expr)

    def candidates(self) -> Iterator[Candidate]:
        found = [*self._rewritten(), *self._custom()]
        for made in found[: self._most]:
            try:
                candidate = self._candidate(made)
            except ShapeMismatch:  # conditions on arrays of different shapes
                continue
            if candidate is not None:
                yield candidate
        yield from self._without_rules()

    def _without_rules(self) -> Iterator[Candidate]:
        """The formula without the blamed custom gradients: they may lose digits that the function's
        own derivative keeps."""
        rules = [expr.custom.name for expr in self._blamed if expr.custom is not None]
        if rules:
            plain, names = inlined(self._program, rules), dict.fromkeys(rules)
            yield Candidate(
                program=plain,
                before=self._text(self._forest.output, _SPAN),
                after=_formula(plain),
                model=statements(plain),
                rules=tuple(f"without the custom gradient of {name}" for name in names),
                part=plain,
            )

    def _rewritten(self) -> list[_Rewritten]:
        root = self._forest.output
        level = [_Rewritten(root, root, (), 0)]
        seen = {id(root)}
        rewritten: list[_Rewritten] = []
        chain = self._chain() if len(self._widths) > 1 else []
        if len(self._widths) > 1:
            rewritten += self._within_range()
            seen.update(id(made.root) for made in rewritten)
        for width in self._widths:
            following: list[_Rewritten] = []
            going_on = sorted((made for made in level if not made.ends), key=_rank)
            for made in going_on[:width]:
                if made.steps and len(following) >= ENOUGH:
                    break
                for more in self._rewritten_once_more(made):
                    if id(more.root) not in seen:
                        seen.add(id(more.root))
                        following.append(more)
                    if not made.steps and len(following) >= self._most < MOST:
                        break  # enough of a large program
            rewritten += [
                *sorted(following, key=_rank),
                *(made for made in chain if id(made.root) not in seen),
            ]
            seen.update(id(made.root) for made in chain)
            if len(rewritten) >= self._most:
                break  # later ones would not be tried
            level, chain = following, []
        # all single rewrites, and the nearest of the others
        return rewritten

    def _chain(self) -> list[_Rewritten]:
        """Rewrite the program repeatedly, each time to the shortest result, as a person does who
        puts every part in its stable form. Single rewrites are left out, as the first level has
        them."""
        made = _Rewritten(self._forest.output, self._forest.output, (), 0)
        chain: list[_Rewritten] = []
        seen = {id(made.root)}
        for _ in range(CHAIN):
            steps = [
                more
                for more in self._everywhere_in(made)
                if id(more.root) not in seen and not more.ends
            ]
            if not steps:
                break
            made = min(steps, key=lambda more: len(ordered(more.root)))
            seen.add(id(made.root))
            chain.append(made)
        return chain[1:]

    def _within_range(self) -> list[_Rewritten]:
        """Rewrite the program repeatedly while this reduces the count of numbers that the dtype
        cannot hold, as a person does who follows an overflow through the program. Best first."""
        made = _Rewritten(self._forest.output, self._forest.output, (), 0)
        chain: list[_Rewritten] = []
        ranges = Ranges(self._forest, FORMATS[self._dtype], self._values)
        lost = ranges.lost(made.root)
        for _ in range(CHAIN if lost else 0):
            steps = [
                (ranges.lost(more.root), len(ordered(more.root)), more)
                for more in self._everywhere_in(made)
                if not more.ends
            ]
            best = min(steps, key=lambda step: step[:2], default=None)
            if best is None or best[0] >= lost:
                break
            lost, _, made = best
            chain.append(made)
            if not lost:
                break
        return chain[:0:-1]  # the first level has the single rewrite

    def _everywhere_in(self, made: _Rewritten) -> Iterator[_Rewritten]:
        places = [expr for expr in ordered(made.root) if expr.op not in _LEAVES]
        for expr in places[-PLACES:]:
            yield from self._rewritten_at(made, expr, 0)

    def _rewritten_once_more(self, made: _Rewritten) -> Iterator[_Rewritten]:
        """The program with one more rewrite."""
        count = len(self._program.nodes)
        far = NEXT if made.steps else FAR
        if self._everywhere or count <= SMALL:
            far = count
        seeds = [made.new, *self._blamed] if made.steps else self._blamed
        for expr, distance in _operations_near(made.root, seeds, far):
            yield from self._rewritten_at(made, expr, distance)

    def _rewritten_at(self, made: _Rewritten, expr: Expr, distance: int) -> Iterator[_Rewritten]:
        """The program with one rewrite of one of its parts."""
        for proposal in self._proposals(expr, broad=not made.steps):
            try:
                root = self._replaced(made.root, expr, proposal, broad=not made.steps)
            except ShapeMismatch:
                continue
            steps = (*made.steps, proposal)
            yield _Rewritten(root, proposal.new, steps, made.distance + distance)

    def _replaced(self, root: Expr, expr: Expr, proposal: Proposal, *, broad: bool) -> Expr:
        """`root` with the proposal in place of `expr`, and with the same rule's proposals wherever
        the same expression of the user ran, as in a loop. Later nodes are replaced first, as they
        may contain earlier ones."""
        several = [(expr, proposal)]
        for other in self._alike(expr):
            others = [
                one for one in self._proposals(other, broad=broad) if one.rule is proposal.rule
            ]
            several += [(other, one) for one in others[:1]]
        for old, one in sorted(several, key=lambda pair: -(pair[0].origin or 0)):
            root = self._forest.replaced(root, old, one.new)
        return root

    def _alike(self, expr: Expr) -> list[Expr]:
        """Other nodes of the program from the same place in the user's code."""
        node = None if expr.origin is None else self._program.nodes[expr.origin]
        if node is None or node.source is None:
            return []
        key = (node.op, node.source.path, node.span)
        return [one for one in dict.fromkeys(self._at_place[key]) if one is not expr]

    def _proposals(self, expr: Expr, *, broad: bool) -> tuple[Proposal, ...]:
        if (id(expr), broad) not in self._known:
            site = Site(self._workshop, expr, FORMATS[self._dtype], self._value)
            self._known[id(expr), broad] = tuple(
                proposal
                for rule in CATALOGUE
                if broad or not rule.broad
                for proposal in rule.proposals(site)
                if proposal.new is not expr and self._holds(proposal.conditions)
            )
        return self._known[id(expr), broad]

    def _value(self, expr: Expr) -> Array | None:
        """The value of an expression at the failing point, in float64, or None."""
        if expr.origin is None:
            return None
        if self._numbers is None:
            plain = inlined(self._program)
            if len(plain.nodes) != len(self._program.nodes):
                return None
            found = PlainFunction(plain, self._dtype).nodes(self._values)
            self._numbers = [np.asarray(value) for value in found]
        return self._numbers[expr.origin]

    def _holds(self, conditions: Sequence[Expr]) -> bool:
        """Whether all conditions hold at the failing point."""
        for condition in conditions:
            if id(condition) not in self._held:
                program = inlined(self._forest.to_program(condition, _SPAN))
                numbers = PlainFunction(program, self._dtype).nodes(self._values)
                self._held[id(condition)] = bool(np.all(numbers[program.output]))
            if not self._held[id(condition)]:
                return False
        return True

    def _custom(self) -> list[_Rewritten]:
        """The blamed operations, each with its stable derivative as a custom gradient, and all of
        them."""
        rewritten: list[_Rewritten] = []
        together, replaced = self._forest.output, 0
        for expr in dict.fromkeys(self._blamed):
            try:
                new = stable(self._forest, expr)
                root = self._forest.replaced(self._forest.output, expr, new)
                together = self._forest.replaced(together, expr, new)
            except (NotStated, ShapeMismatch):
                continue
            replaced += 1
            rewritten.append(_Rewritten(root, new, (), 0))
        if replaced > 1:
            rewritten.append(_Rewritten(together, together, (), 0))
        return rewritten

    def _candidate(self, made: _Rewritten) -> Candidate | None:
        forest, program = self._forest, self._program
        old, new = _difference(forest.output, made.root)
        span = _SPAN if old.origin is None else program.nodes[old.origin].span
        rewritten = forest.to_program(made.root, span)
        if used_inputs(rewritten) != used_inputs(program):
            return None  # an input would lose its gradient
        conditions = list(dict.fromkeys(c for step in made.steps for c in step.conditions))
        kinks = [step.kink for step in made.steps if step.kink is not None]
        told = [f"{value} where {_formula(forest.to_program(at, span))}" for value, at in kinks]
        part = forest.to_program(new, span)
        return Candidate(
            program=rewritten,
            before=self._text(old, span),
            after=_formula(part),
            model=statements(rewritten),
            rules=tuple(step.rule.text for step in made.steps),
            part=part,
            condition=" and ".join(_formula(forest.to_program(c, span)) for c in conditions),
            holds=self._conjunction(conditions, span),
            kink="; ".join(dict.fromkeys(told)).replace(" == ", " = "),
            custom=rewritten.has_custom_gradient and not program.has_custom_gradient,
        )

    def _text(self, old: Expr, span: Span) -> str:
        if old.origin is not None and self._program.nodes[old.origin].text:
            return self._program.nodes[old.origin].text
        return _formula(self._forest.to_program(old, span))

    def _conjunction(self, conditions: Sequence[Expr], span: Span) -> Program | None:
        """The conditions as one program, or None."""
        if not conditions:
            return None
        whole = conditions[0]
        for condition in conditions[1:]:
            whole = self._forest.call("logical_and", whole, condition)
        return self._forest.to_program(whole, span)


_SPAN = Span(1, 1, 1, 1)
_LEAVES = (INPUT, CONSTANT, CUSTOM)


def _rank(made: _Rewritten) -> tuple[int, int]:
    return made.distance, _added_operations(made.new)


def _added_operations(expr: Expr) -> int:
    """The number of operations of an expression that the original does not have."""
    count, waiting, seen = 0, [expr], set[int]()
    while waiting:
        part = waiting.pop()
        if part.origin is None and id(part) not in seen:
            seen.add(id(part))
            count += 1
            waiting += part.args
    return count


def _operations_near(root: Expr, seeds: Sequence[Expr], far: int) -> list[tuple[Expr, int]]:
    """Operations of `root` at most `far` steps from one of the seeds, nearest first."""
    order = ordered(root)
    parents: dict[int, list[Expr]] = {id(expr): [] for expr in order}
    for expr in order:
        for arg in expr.args:
            parents[id(arg)].append(expr)
    level = [seed for seed in dict.fromkeys(seeds) if id(seed) in parents]
    distance = {id(expr): 0 for expr in level}
    near = [(expr, 0) for expr in level]
    for step in range(1, far + 1):
        following = []
        for expr in level:
            for neighbour in (*expr.args, *parents[id(expr)]):
                if id(neighbour) not in distance:
                    distance[id(neighbour)] = step
                    following.append(neighbour)
                    near.append((neighbour, step))
        level = following
    operations = [(e, step) for e, step in near if e.op not in _LEAVES]
    return operations[:PLACES]


def _difference(old: Expr, new: Expr) -> tuple[Expr, Expr]:
    """The smallest parts in which two expressions differ."""
    while (old.op, len(old.args), old.custom) == (new.op, len(new.args), new.custom):
        apart = [(a, b) for a, b in zip(old.args, new.args, strict=True) if a is not b]
        if len(dict.fromkeys(apart)) != 1 or repr(old.keywords) != repr(new.keywords):
            break
        old, new = apart[0]
    return old, new


def _formula(part: Program) -> str:
    """The part on one line if it is short, else in statements with names for parts used twice."""
    sizes: list[int] = []
    for node in part.nodes:
        sizes.append(1 + sum(sizes[arg] for arg in node.args))
    if not part.has_custom_gradient and sizes[part.output] <= LONG:
        line = expression(part, part.output)
        if len(line) <= LONG:
            return line
    return statements(part)


class Ranges:
    """Values of expressions in float64, each computed once."""

    def __init__(self, forest: ExprPool, fmt: FloatFormat, values: Mapping[str, Array]) -> None:
        self._fmt = fmt
        self._inputs = {
            id(forest.of_node[i]): values[name] for name, i in forest.program.inputs.items()
        }
        self._values: dict[int, Any] = {}
        self._lost: dict[int, bool] = {}

    def lost(self, root: Expr) -> int:
        """How many uses of numbers, the result included, overflow, underflow or are nan in the
        dtype. Unknown values do not count."""
        total = int(self._is_lost(root))
        for expr in ordered(root):
            total += sum(map(self._is_lost, expr.args))
        return total

    def _is_lost(self, expr: Expr) -> bool:
        if id(expr) not in self._lost:
            value = self._value(expr)
            if value is None or expr.kind != "float" or expr.op == CONSTANT:
                self._lost[id(expr)] = False
            else:
                size = np.abs(value)
                fits = (size == 0) | (size >= self._fmt.smallest_normal)
                self._lost[id(expr)] = not np.all(fits & (size <= self._fmt.largest))
        return self._lost[id(expr)]

    def _value(self, root: Expr) -> Any:
        from reference_engine.op import TABLE

        if id(root) in self._values:
            return self._values[id(root)]
        for expr in ordered(root, known=self._values):
            args = [self._values[id(arg)] for arg in expr.args]
            value = None
            if expr.op == INPUT:
                value = self._inputs.get(id(expr))
            elif expr.op == CONSTANT:
                value = np.asarray(expr.value)
            elif expr.op != CUSTOM and all(arg is not None for arg in args):
                value = TABLE[expr.op].value(*args, **expr.keywords)
            self._values[id(expr)] = value
        return self._values[id(root)]
