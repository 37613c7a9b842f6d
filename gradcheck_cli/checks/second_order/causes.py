"""Find why a second derivative is wrong: a custom function that loses terms, or an operation whose
own second derivative is wrong in the framework."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice, product

import numpy as np

from gradcheck_cli.checks.causes.framework_rules import OWN_SECONDS, executed, in_time
from gradcheck_cli.checks.second_order.hessian import PAIRED, plain_name
from gradcheck_cli.domain.blocks import HessianBlock
from gradcheck_cli.domain.codes import NAN_OR_INFINITE, Codes
from gradcheck_cli.domain.evaluation import SECOND, Mode, modes_in
from gradcheck_cli.domain.layer import LayerAnswer
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.engines.layer.custom import CustomCall
from gradcheck_cli.engines.layer.source_lines import returned
from gradcheck_cli.engines.layer.subject import Subject, output_size
from gradcheck_cli.engines.tracebacks import one_line, raise_if_internal, where_it_runs

BY_THEMSELVES = (Codes.WRONG_SECOND_DERIVATIVE, *NAN_OR_INFINITE)
"""The codes for which operations are examined in isolation."""

Alone = Callable[..., LayerAnswer]
"""Examines a call in isolation, in the given modes (none: the layer's compositions)."""

Errors = frozenset[tuple[str | None, str]]
"""Pairs of composition and code."""


class SecondOrderCauses:
    """The custom functions and operations of one layer. `notes` collects the reasons why they could
    not be examined."""

    def __init__(self, subject: Subject, alone: Alone | None, notes: list[str]) -> None:
        self._subject = subject
        self._alone = alone
        self._notes = notes
        self._own: Sequence[tuple[CustomCall, Errors]] | None = None

    def named(self, finding: Finding) -> Finding:
        """The finding with its cause, if known: a wrong second derivative with the custom function
        that loses it and its line; a nan or infinite one with the operations that have it in
        isolation."""
        if finding.code not in BY_THEMSELVES:
            return finding
        if finding.code != Codes.WRONG_SECOND_DERIVATIVE:
            return self._of_the_framework(finding)
        calls = [call for call in self._functions if _is_on_the_way(call, finding)]
        for call in calls:
            by, place = _reason_and_place(call, finding)
            if by:
                message = f"{finding.message}: {by}"
                return replace(finding, message=message, place=place or call.place)
        inside = self._wrong_inside(finding, {call.name for call in calls})
        if inside is not None:
            name, place = inside
            by = f"a backward calls `{name}`, whose own derivative is wrong"
            return replace(finding, message=f"{finding.message}: {by}", place=place)
        if not calls:
            return self._of_the_framework(finding)
        if len({call.name for call in calls}) != 1:
            return finding
        (call, *_) = calls
        message = f"{finding.message}: `{call.name}` is the only custom function involved"
        rule = call.backward if _inner(finding) == "reverse" else call.jvp
        return replace(finding, message=message, place=returned(rule) or call.place)

    def _wrong_inside(self, finding: Finding, known: Set[str]) -> tuple[str, Place | None] | None:
        """The name of a function that only a backward calls and whose first derivative is wrong in
        isolation, with the place of that derivative; None if there is none."""
        outer, *inner = modes_in(finding.mode or "")
        if self._alone is None or inner != ["reverse"]:
            return None
        for call in self._functions_of_backward:
            if call.name in known or call.live is None or not call.moving:
                continue
            for found in self._alone(call, outer).findings:
                if found.code == Codes.WRONG_GRADIENT and found.input:
                    path = call.positions.get(found.input, (0,))
                    rule = (call.jvp,) if outer == "forward" else (call.backward, *path)
                    return call.name, returned(*rule) or call.place
        return None

    @cached_property
    def _functions_of_backward(self) -> Sequence[CustomCall]:
        row = np.random.default_rng(len(self._subject.outputs)).standard_normal(
            output_size(self._subject)
        )
        none: Sequence[CustomCall] = ()
        return where_it_runs(lambda: self._subject.functions(row), none)

    def _of_the_framework(self, finding: Finding) -> Finding:
        """The finding with the operations that have the same error in isolation."""
        if finding.mode is None or self._alone is None:
            return finding
        error = finding.mode, finding.code
        calls = [
            call
            for call, errors in self._wrong_calls(self._alone)
            if error in errors and _is_on_the_way(call, finding)
        ]
        if not calls:
            return finding
        names = " and ".join(f"`{call.name}`" for call in calls)
        are = "is" if len(calls) == 1 else "are"
        message = f"{finding.message.rstrip('.')}; in isolation, {names} {are} wrong, too"
        place = calls[0].place or finding.place
        return replace(finding, message=message, place=place)

    def _wrong_calls(self, alone: Alone) -> Sequence[tuple[CustomCall, Errors]]:
        """The operations with errors in isolation, and these errors. The only operation of a layer
        is assumed to have every error. Each is examined once, in all compositions."""
        if self._own is None:
            self._own = tuple(self._find_wrong_calls(alone))
        return self._own

    def _find_wrong_calls(self, alone: Alone) -> Iterator[tuple[CustomCall, Errors]]:
        rng = np.random.default_rng(len(self._subject.outputs))
        row = rng.standard_normal(output_size(self._subject))
        try:
            recording = self._subject.record(row)
        except Exception as error:  # the layer does not run while recorded, as with sparse arrays
            raise_if_internal(error)
            self._notes.append(f"its operations could not be examined: {one_line(error)}")
            return
        calls = executed(recording)
        nearest = list(islice(calls, 2))
        if len(nearest) == 1:
            yield nearest[0], frozenset(product(SECOND, BY_THEMSELVES))
            return
        notes: dict[str, None] = {}
        seen: set[str] = set()
        for call in in_time(chain(nearest, calls), notes, OWN_SECONDS):
            if call.name not in seen:
                findings = (one for one in alone(call).findings if one.severity == "error")
                errors = frozenset((one.mode, one.code) for one in findings)
                if any(code in BY_THEMSELVES for _, code in errors):
                    seen.add(call.name)
                    yield call, errors
        self._notes.extend(notes)

    @cached_property
    def _functions(self) -> Sequence[CustomCall]:
        try:
            return self._subject.functions()
        except Exception as error:  # the layer does not run while watched
            raise_if_internal(error)
            self._notes.append(f"its custom functions could not be examined: {one_line(error)}")
            return ()


def _inner(finding: Finding) -> Mode:
    return modes_in(finding.mode or "")[-1]


def _is_on_the_way(call: CustomCall, finding: Finding) -> bool:
    block = finding.input
    return block is None or any(
        HessianBlock.is_of(block, plain_name(leaf)) for leaf in call.reaches
    )


def _reason_and_place(call: CustomCall, finding: Finding) -> tuple[str, Place | None]:
    """Why a function has no second derivative in the finding's composition, and where; no words if
    no reason is known."""
    inner = _inner(finding)
    if (
        inner == "reverse"
        and call.once
        and all(entry.computed is None for entry in finding.entries)
    ):
        by = f"`once_differentiable` forbids a second derivative of `{call.name}`"
        return by, returned(call.backward)
    if inner == "reverse" and call.saves:
        by = f"`{call.name}` saves a value of its forward that is neither an input nor an output"
        return f"{by}: its derivative is lost", call.saves
    if place := call.stops.get(inner):
        rule = "jvp" if inner == "forward" or call.backward is call.jvp else "backward"
        by = f"`{call.name}` stops the gradient of a value that its {rule} uses"
        return f"{by}: its derivative is lost", place
    if finding.mode == PAIRED and call.lone_jvp:
        by = f"PyTorch does not differentiate the jvp of `{call.name}` in forward mode"
        return by, None
    return "", None
