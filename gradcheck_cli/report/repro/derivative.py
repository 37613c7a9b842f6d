"""A script that shows one number: an entry of a derivative, or of an output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from gradcheck_cli.domain.blocks import HessianBlock
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import COMPLEX, joined, parts_of
from gradcheck_cli.domain.evaluation import COMPOSED, Mode
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import LISTED, Finding
from gradcheck_cli.domain.spec import Input, Spec
from gradcheck_cli.report.repro.ending import ending, is_of_compiler
from gradcheck_cli.report.repro.languages import (
    ALONG,
    CAPTURED_REVERSE,
    COMPILED_REVERSE,
    DUAL,
    REVERSE_AGAIN,
    TORCH,
    WHOLE_REVERSE,
    Language,
    rule_along,
)
from gradcheck_cli.report.repro.layer_code import LayerCode, NoScript

OF_OUTPUTS = (Codes.WRONG_OUTPUT, Codes.NON_FINITE_OUTPUT, Codes.UNSTABLE_OUTPUT)
_MIXED = COMPOSED["forward-over-reverse"]
_DTYPES = {"i": "int64", "b": "bool"}
_COMPLEX = {parts: dtype for dtype, parts in COMPLEX.items()}

_UNLISTED = f"it is a product with random directions of more than {LISTED} numbers"

_By = tuple[str, str]
"""The first word of a rule's name, and the arguments that say by what it differentiates."""


@dataclass(frozen=True, slots=True)
class Derivative:
    """The part of a script that computes the number."""

    finding: Finding
    spec: Spec
    language: Language
    compiles: bool
    layer: LayerCode
    seed: int
    takes_pairs: ClassVar[bool] = True  # for complex inputs

    def end(self) -> str:
        return ending(self.finding, self.language)

    def parts(self) -> Iterator[str]:
        modes, number, output = self._expression()
        yield "\n".join(part for part in self._objects(modes) if part)
        yield f"\ndef value(inputs):\n    {self._value(output)}"
        yield from ("\n" + rule for rule in self._used(modes, number))
        if (self.compiles and not self._is_torch) or self._is_compiled_whole(modes):
            number = self.language.compiled.format(function=number)
        number = f"{number}(inputs){_subscript(self._entry_outside(modes) or ())}"
        if self.finding.entries[0].computed is not None:
            number = self.language.number.format(array=number)
        yield f"\ncomputed = {number}"
        if self._compares:
            yield self.language.uncompiled.format(number=number)

    @property
    def _compares(self) -> bool:
        """Whether the script also shows the number without the compiler, which is right."""
        return is_of_compiler(self.finding)

    @property
    def _is_torch(self) -> bool:
        return self.language is TORCH

    def _is_compiled_whole(self, modes: tuple[Mode, ...]) -> bool:
        """Whether `torch.compile` also compiles the outermost transform. It does in forward mode;
        reverse mode differentiates the compiled function."""
        return self._is_torch and self.compiles and modes[:1] == ("forward",)

    def _entry_outside(self, modes: tuple[Mode, ...]) -> tuple[int, ...] | None:
        """The entry of the gradient that is taken outside of what is compiled, because the compiler
        writes other code for one entry; None if a direction, or no gradient, is differentiated."""
        if not self._is_compiled_whole(modes) or modes[1:] != ("reverse",) or self.finding.firsts:
            return None
        return self.finding.entries[0].index[: self.inputs[self._block.rows].value.ndim]

    @property
    def _block(self) -> HessianBlock:
        return HessianBlock.named(self.finding.input or "", list(self.spec.inputs))

    def _value(self, output: tuple[int, ...]) -> str:
        """The statements of a function of real arrays: one output, or the product with `y_bar`. The
        parts of a complex number are differentiated, independent of the conjugate convention of a
        framework."""
        call, lines = self.layer.call, []
        pairs = [name for name, one in self.inputs.items() if one.is_complex]
        for name in pairs:
            array = f"inputs[{name!r}]"
            call = call.replace(array, self.language.joined.format(array=array))
        how = self.finding.indexing
        if pairs or (how is not None and how.complex_output):
            lines, call = [f"y = {call}", self.language.pairs], "y"
        value = f"{call}{_subscript(output)}"
        if self._cotangent:
            value = self.language.product.format(y=call)
        return "\n    ".join([*lines, f"return {value}"])

    def _expression(self) -> tuple[tuple[Mode, ...], str, tuple[int, ...]]:
        """The modes of differentiation, the number as a function of the inputs, and the index of
        its output."""
        finding = self.finding
        if finding.code in OF_OUTPUTS and finding.input is None:
            return (), "value", finding.entries[0].index
        mode: Any = finding.mode
        modes = COMPOSED.get(mode, (mode,))
        if len(modes) > 1:
            return modes, self._composed(modes), ()
        return modes, *self._first_order(modes)

    def _objects(self, modes: tuple[Mode, ...]) -> Iterator[str]:
        """The lines that construct the differentiated function and its inputs."""
        name, language = self.layer.name, self.language
        yield language.before
        if self.compiles and self._is_torch:  # Inductor writes other code for several threads
            yield "torch.set_num_threads(1)"
        yield self.layer.made
        if self.compiles and self._is_torch and modes in ((), ("reverse",)):
            yield f"{name} = {language.compiled.format(function=name)}"
        yield self._inputs()
        if self._cotangent:  # of the output, whose product is differentiated
            yield f"y_bar = {self._numbers(self._cotangent)}"
        yield from self._tangents()
        if len(modes) > 2:
            yield f"directions = {self._directions()}"

    @property
    def _cotangent(self) -> tuple[float, ...]:
        """The cotangent of the flattened output: for a first derivative, the one that belongs to
        the worst entry."""
        how, cotangents = self.finding.indexing, self.finding.cotangents
        counts = how is not None and how.cotangents and how.output_axes
        return cotangents[self.finding.entries[0].index[0] if counts else 0] if cotangents else ()

    def _tangents(self) -> Iterator[str]:
        """The lines with the directions of the worst entry: `u` along the rows of a Hessian, and
        `v`."""
        finding, how = self.finding, self.finding.indexing
        along = finding.mode in COMPOSED or (how is not None and how.directions)
        if not along or not (finding.firsts or finding.columns):
            return
        index, rows, columns = finding.entries[0].index, "", finding.input or ""
        if finding.mode in COMPOSED:
            block = HessianBlock.named(columns, list(self.spec.inputs))
            rows, columns = block.rows, block.columns
        given = ("u", rows, finding.firsts, index[:1]), ("v", columns, finding.columns, index[-1:])
        for letter, name, directions, place in given:
            if directions:
                array = np.reshape(directions[place[0]], self.inputs[name].value.shape)
                yield f"{letter} = {self._numbers(array.tolist())}"

    def _numbers(self, value: Any) -> str:
        """An array that is not differentiated."""
        numbers = _number(list(value) if isinstance(value, tuple) else value)
        return self.language.array.format(value=numbers, dtype=self._parts, leaf="")

    def _used(self, modes: tuple[Mode, ...], number: str) -> Iterator[str]:
        """The definitions of the transforms that an expression uses."""
        third = ""
        if len(modes) > 2:
            inner = "compiled_reverse" if self._is_torch and self.compiles else "reverse"
            third = ALONG.format(inner=inner)
        for rule in self._rules(modes):
            for one in dict.fromkeys((rule, rule_along(rule, self.language.total))):
                if f"{one.split()[1].partition('(')[0]}(" in number + third:
                    yield one
        yield from [third] * bool(third)

    def _rules(self, modes: tuple[Mode, ...]) -> Iterator[str]:
        """The definitions of the transforms. Those of PyTorch are written as its engines use
        them."""
        compiles = self._is_torch and self.compiles
        if "reverse" in (modes[:1] if compiles else modes):
            again = self._is_torch and not compiles and len(modes) > 1
            captured = self.finding.engine == "torch-compiled-autograd"
            own = CAPTURED_REVERSE if captured else self.language.reverse
            yield REVERSE_AGAIN if again else own
        if compiles and "reverse" in modes[1:]:
            yield COMPILED_REVERSE
            yield WHOLE_REVERSE
        if "forward" in modes:
            dual = self._is_torch and not self.compiles and modes in (("forward",), _MIXED)
            yield DUAL if dual else self.language.forward

    def _first_order(self, modes: tuple[Mode, ...]) -> tuple[str, tuple[int, ...]]:
        """The derivative as an expression, and the index of the differentiated output."""
        finding = self.finding
        how, index = finding.indexing, finding.entries[0].index
        if how is None or bool(how.cotangents) > bool(finding.cotangents):
            raise NoScript(_UNLISTED)
        if how.directions and not finding.columns:
            raise NoScript(_UNLISTED)
        if how.complex_input and finding.input not in self.inputs:
            raise NoScript("it is about a complex parameter")
        output, place = index[: how.output_axes], index[how.output_axes :]
        if how.cotangents:
            output = ()
        by, one = by_or_along(finding.input or "", place, "v" * how.directions)
        return f"{by}_{modes[0]}(value, {one})", output

    def _composed(self, modes: tuple[Mode, ...]) -> str:
        """A second derivative as an expression. If reverse mode is inside, it gives the gradient
        with respect to the rows of the block (for a layer in reverse over reverse: to its columns).
        If forward mode is inside, it moves along the columns."""
        finding, index = self.finding, self.finding.entries[0].index
        block = self._block
        axes = [self.inputs[name].value.ndim for name in (block.rows, block.columns)]
        if finding.firsts:
            axes[0] = 1
        if finding.columns:
            axes[1] = 1
        if len(index) != sum(axes):
            raise NoScript(_UNLISTED)
        rows = by_or_along(block.rows, index[: axes[0]], "u" * bool(finding.firsts))
        columns = by_or_along(block.columns, index[axes[0] :], "v" * bool(finding.columns))
        outer, inner, *_ = modes
        is_of_rows = inner == "reverse" and not (outer == "reverse" and self._is_layer)
        first, last = (rows, columns) if is_of_rows else (columns, rows)
        if self._entry_outside(modes) is not None:
            first = "whole", repr(block.rows)
        return self._nested(modes, first, last)

    def _nested(self, modes: tuple[Mode, ...], first: _By, last: _By) -> str:
        """An expression with the inner mode along `first` and the outer mode along `last`, each an
        entry or a direction. It differentiates the value or, for third order, its derivative along
        a direction."""
        outer, inner, *_ = modes
        value = "along_directions(value)" if len(modes) > 2 else "value"
        compiles = self.compiles and self._is_torch
        own = "compiled_" * (compiles and inner == "reverse")
        inside = f"{first[0]}_{own}{inner}({value}, {first[1]})"
        if compiles and outer == "reverse":
            inside = self.language.compiled.format(function=inside)
        return f"{last[0]}_{outer}({inside}, {last[1]})"

    def _directions(self) -> dict[tuple[str, tuple[int, ...]], float]:
        """How far each entry of each input moves."""
        return {
            (name, place): u
            for name, numbers in self.finding.along
            for place, u in zip(np.ndindex(self.inputs[name].value.shape), numbers, strict=True)
        }

    @property
    def _is_layer(self) -> bool:
        return any(one.engine == self.finding.engine for one in self.spec.implementations)

    @property
    def inputs(self) -> Mapping[str, Input]:
        return self.spec.points[self.finding.point or 0]

    def _inputs(self) -> str:
        name, rows = self.finding.input, [*self._rows()]
        if self.finding.mode in COMPOSED or name is None or name in self.inputs:
            return "\n".join(rows)
        if self.language is not TORCH or self.finding.mode != "reverse" or not self.layer.made:
            raise NoScript(f"`{name}` is no input")
        rows.insert(-1, f"    {name!r}: {self.layer.name}.get_parameter({name!r}),")
        return "\n".join(rows)

    def _rows(self) -> Iterator[str]:
        """The lines of a dictionary of the inputs."""
        if self.takes_pairs and any(one.is_complex for one in self.inputs.values()):
            yield "# A complex number is the pair of its real and its imaginary part."
        yield "inputs = {"
        for name, one in self.inputs.items():
            yield f"    {name!r}: {self._array(name, one)},"
        yield "}"

    def _moves(self, name: str, one: Input) -> bool:
        is_wanted = name in self.spec.wrt or (not self.spec.wrt and one.requires_grad)
        return one.value.dtype.kind == "f" and is_wanted

    def _array(self, name: str, one: Input) -> str:
        value, dtype = one.value, _DTYPES.get(one.value.dtype.kind, self._parts)
        if one.is_complex and not self.takes_pairs:
            value, dtype = joined(value), _COMPLEX[self._parts]
        return self.language.array.format(
            value=_number(value.tolist()),
            dtype=dtype,
            leaf=", requires_grad=True" if self._moves(name, one) else "",
        )

    @property
    def _parts(self) -> str:
        """The dtype of real numbers, also of the parts of complex ones."""
        return parts_of(self.finding.dtype or "float64")


def by_or_along(name: str, index: tuple[int, ...], direction: str = "") -> _By:
    return ("along", f"{name!r}, {direction}") if direction else ("by", f"{name!r}, {index}")


def _subscript(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]" if index else ""


def _number(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_number, value))}]"
    text = repr(value)
    return f"float({text!r})" if text in ("inf", "-inf", "nan") else text
