"""The searches of a spec within a run. The inputs that they find are examined like points of the
spec.

A witness is judged, blamed and fixed by the same steps as a point. Its findings carry the `search`
that found it, with the region. Each fix is searched over the same domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gradcheck_cli.checks.formula import Formula
from gradcheck_cli.checks.protocol import Ask, Steps
from gradcheck_cli.domain.codes import CODES, Codes
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.report import Finding, Fix
from gradcheck_cli.domain.search import KINDS, Search, SearchAnswer, SearchedFix, Witness
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.registry import Registered
from gradcheck_cli.formula import Argument, parse
from gradcheck_cli.run.plan import make_plan
from gradcheck_cli.run.searching import Place, reason_for_none, requests_of, undecided
from gradcheck_cli.search.answering import FOR_FIXES, searched_fix
from gradcheck_cli.search.kinds import CODES_OF
from gradcheck_cli.specfile.points import at_words, specs_at_point


class Searched:
    """The searches of one spec, and their results. `budget` is in seconds. Raises UsageError."""

    def __init__(
        self, spec: Spec, budget: float, options: RunOptions, registered: Mapping[str, Registered]
    ) -> None:
        self._spec = spec
        self._options = options
        self._registered = registered
        self._findings: list[Finding] = []
        self.notes: list[str] = []
        requests = requests_of(spec, options, KINDS, budget, registered)
        self._requests = {place: replace(one, fixes=False) for place, one in requests.items()}
        if not requests:
            self.notes.append(reason_for_none(spec, options, registered))

    @property
    def engines(self) -> list[str]:
        """The engines that search."""
        return list(dict.fromkeys(engine for engine, _ in self._requests))

    def steps(self) -> Steps[None]:
        """Searches, after the points of the spec had their first look."""
        yield []
        asks = [Ask(place[0], request) for place, request in self._requests.items()]
        answers = yield asks
        for place, request, answer in zip(
            self._requests, self._requests.values(), answers, strict=True
        ):
            searches = (
                answer.searches
                if isinstance(answer, SearchAnswer)
                else undecided(place, request, answer)
            )
            for search in searches:
                if search.witness is not None and not search.witness.genuine:
                    yield from self._examine(search, search.witness)
            self._report_open(place, searches)
        yield from self._search_fixes()

    def _examine(self, search: Search, witness: Witness) -> Steps[None]:
        """Judges the engine at a witness as at a point of the spec."""
        words = tuple(at_words(witness.values, search.dtype)[1::2])
        (spec,) = specs_at_point([self._spec], words)
        options = self._options.only(search.engine, search.dtype, "reverse")
        options = replace(options, illustrated=False)
        plan = make_plan(replace(spec, order=1), options, self._registered)
        for look in plan.looks:
            formula = Formula(look.case, look.problems, look.truth)
            yield from formula.steps()
            self._findings += [*formula.mistakes, *_of_kind(formula.findings, search, words)]
        for problem in plan.layers:
            if not problem.behaviour:
                (answer,) = yield [Ask(search.engine, problem)]
                self._findings += _of_kind(answer.findings, search, words)

    def _report_open(self, place: Place, searches: Sequence[Search]) -> None:
        engine, dtype = place
        proven = [one.kind for one in searches if one.verdict == "proven-absent"]
        left = [one for one in searches if one.verdict == "undecided"]
        if proven:
            every = len(proven) == len(KINDS)
            what = "all six kinds of failure" if every else ", ".join(proven)
            self.notes.append(f"{engine} {dtype}: proven absent for every number: {what}")
        if left:
            row = CODES[Codes.UNPROVEN]
            why = next((f": {one.why}" for one in left if one.why), "")
            which = ", ".join(one.kind for one in left)
            which = "all six kinds of failure" if len(left) == len(KINDS) else which
            message = f"neither found nor proven absent: {which}{why}"
            node = self._spec.program.result
            found = Finding(row.code, row.severity, message, node.span, engine, dtype)
            self._findings.append(replace(found, search=left[0]))

    def _search_fixes(self) -> Steps[None]:
        """Searches each fix over the same domain."""
        known: dict[tuple[str, str, str], SearchedFix | None] = {}
        for number, finding in enumerate(self._findings):
            fix, search = finding.fix, finding.search
            if fix is None or search is None or fix.custom or self._spec.implementations:
                continue
            key = search.engine, search.dtype, fix.model
            if key not in known:
                known[key] = yield from self._search_fix(fix, search)
            self._findings[number] = replace(finding, fix=replace(fix, searched=known[key]))

    def _search_fix(self, fix: Fix, search: Search) -> Steps[SearchedFix | None]:
        request = self._requests[search.engine, search.dtype]
        fixed = _fixed(self._spec, fix)
        if fixed is None:
            return None
        asked = replace(request, spec=fixed, budget=request.budget * FOR_FIXES)
        (answer,) = yield [Ask(search.engine, asked)]
        if not isinstance(answer, SearchAnswer):
            return None
        return searched_fix(fix.model, fix.rules, answer.searches)

    def added_to(self, findings: Iterable[Finding]) -> list[Finding]:
        """The findings of a run together with those of the searches. A finding that a point of the
        spec already has is not repeated: it gets the search, and its fix gets the result of the
        search for the fix."""
        every = list(findings)
        for new in self._findings:
            places = [i for i, one in enumerate(every) if _is_same(one, new)]
            if not places:
                every.append(new)
            elif (known := every[places[0]]).search is None:
                every[places[0]] = replace(known, search=new.search, fix=_with_search(known, new))
        return every


def _of_kind(
    findings: Sequence[Finding], search: Search, point: tuple[str, ...]
) -> Iterator[Finding]:
    """The findings at a witness that are of the kind searched for; if there are none, all findings
    that count."""
    grave = [one for one in findings if one.severity != "note"]
    mine = [one for one in grave if one.code in CODES_OF[search.kind]] or grave
    return (replace(one, search=search, at=point) for one in mine)


def _fixed(spec: Spec, fix: Fix) -> Spec | None:
    """The spec with the formula of a fix."""
    arguments = {name: Argument.of(entry.value) for name, entry in spec.inputs.items()}
    program = parse(fix.model, inputs=arguments).program
    return None if program is None else replace(spec, program=program)


def _is_same(known: Finding, new: Finding) -> bool:
    names = ("code", "engine", "dtype", "mode", "input")
    return all(getattr(known, name) == getattr(new, name) for name in names)


def _with_search(known: Finding, new: Finding) -> Fix | None:
    """The fix of a known finding, with the result of the search for the same fix."""
    if known.fix is None or new.fix is None or known.fix.model != new.fix.model:
        return known.fix
    return replace(known.fix, searched=new.fix.searched)
