"""Scripts that show something other than one number of a derivative: the kind of a gradient, a lost
output, two modes that disagree, a NumPy pair, and the behaviour of a layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.evaluation import COMPOSED, Mode
from gradcheck_cli.report.repro.behaviour import Behaviour
from gradcheck_cli.report.repro.derivative import OF_OUTPUTS, Derivative, by_or_along
from gradcheck_cli.report.repro.ending import END, NOT_FINITE, title_of
from gradcheck_cli.report.repro.languages import DUAL, FRAMEWORKS, rule_along
from gradcheck_cli.report.repro.layer_code import NoScript
from gradcheck_cli.report.repro.numpy_code import PairCode, all_outputs, one_output

_DISAGREE = """
print({title!r})
print("with", {version}, "on Python", sys.version.split()[0])
print("computed:", computed, "by reverse mode")
print("computed:", other, "by forward mode")
sys.exit(0 if abs(computed - other) <= {half!r} * abs(computed) else 1)
"""
_KIND = """
try:
    x_bar = {gradient}
    computed = {dtype} + f" of shape {{tuple(x_bar.shape)}}"
except Exception as error:
    computed = str(error).strip().partition("\\n")[0]
"""


class KindOfGradient(Derivative):
    """The part of a script that shows the dtype or shape of a gradient, or that the framework
    raises."""

    def parts(self) -> Iterator[str]:
        modes, name = self._modes_and_input()
        if len(modes) > 2:
            raise NoScript("it is a third derivative")
        index = () if modes == ("reverse",) else (0,) * self.inputs[name].value.ndim
        by = by_or_along(name, index)
        gradient = (
            f"by_{modes[0]}(value, {by[1]})" if len(modes) == 1 else self._nested(modes, by, by)
        )
        if (self.compiles and not self._is_torch) or self._is_compiled_whole(modes):
            gradient = self.language.compiled.format(function=gradient)
        yield "\n".join(part for part in self._objects(modes) if part)
        total = self.language.total.format(y=self.layer.call)
        yield f"\ndef value(inputs):\n    return {total}"
        yield from ("\n" + rule for rule in self._used(modes, gradient))
        dtype = self.language.dtype.format(array="x_bar")
        yield _KIND.format(gradient=f"{gradient}(inputs)", dtype=dtype)

    def end(self) -> str:
        finding, (modes, name) = self.finding, self._modes_and_input()
        shape = self.inputs[name].value.shape if modes == ("reverse",) else ()
        usual = f"{finding.dtype} of shape {shape}"
        title, version = title_of(finding), self.language.version
        truth = usual if finding.mode else "a gradient as its input is"
        end = END.format(title=title, version=version, truth=truth, known="")
        return end + f"sys.exit(0 if computed == {usual!r} else 1)\n"

    def _modes_and_input(self) -> tuple[tuple[Mode, ...], str]:
        """The modes, and the differentiated input."""
        mode: Any = self.finding.mode or "reverse"
        name = self.finding.input
        if name not in self.inputs:
            name = next((n for n, one in self.inputs.items() if self._moves(n, one)), None)
        if name is None:
            raise NoScript("no input is differentiated")
        return COMPOSED.get(mode, (mode,)), name


class OfPair(Derivative):
    """The part of a script that runs a forward and a backward of NumPy."""

    takes_pairs = False

    def parts(self) -> Iterator[str]:
        finding, layer = self.finding, self.layer
        assert isinstance(layer, PairCode)
        yield "\n".join(part for part in (layer.made, *self._rows()) if part)
        if finding.code in OF_OUTPUTS and finding.input is None:
            yield f"y = {layer.call}\n{layer.settled}"
            yield f"computed = float(np.asarray(y)[{finding.entries[0].index}])"
            return
        _, output = self._first_order(("reverse",))
        how = finding.indexing
        assert how is not None  # or it would have raised
        index = finding.entries[0].index[how.output_axes :]
        floating = [name for name, one in self.inputs.items() if one.value.dtype.kind == "f"]
        upstream, part = "1", ""
        if how.complex_output and not self._cotangent:
            *_, is_imaginary = output
            output, upstream = output[:-1], "1j" if is_imaginary else "1"
        if how.complex_input:
            index, part = index[:-1], ".imag" if index[-1] else ".real"
        bar = one_output(output, upstream)
        if self._cotangent:
            bar = all_outputs(self._cotangent, how.complex_output)
        yield layer.run(finding.input or "", bar, index, floating, part)


class LostOutput(Derivative):
    """The part of a script that shows the first number of the output that is not finite."""

    def parts(self) -> Iterator[str]:
        yield "\n".join(part for part in self._objects(()) if part)
        value = f"(lambda inputs: {self.layer.call})"
        if self.compiles and not self._is_torch:
            value = self.language.compiled.format(function=value)
        numbers = self.language.numbers.format(array=f"{value}(inputs)")
        yield f"\nnumbers = {numbers}"
        yield "computed = next((y for y in numbers if not abs(y) < float('inf')), numbers[0])"

    def end(self) -> str:
        title, version = title_of(self.finding), self.language.version
        why = self.finding.message.partition(": ")[2] or "not known"
        return END.format(title=title, version=version, truth=why, known="") + NOT_FINITE


class BothModes(Derivative):
    """The part of a script that shows one entry by reverse and by forward mode."""

    def parts(self) -> Iterator[str]:
        *parts, _ = super().parts()
        yield from parts
        dual = self._is_torch and not self.compiles
        rule = DUAL if dual else self.language.forward
        along = bool(self.finding.columns)
        yield "\n" + (rule_along(rule, self.language.total) if along else rule)
        modes: tuple[tuple[str, Mode], ...] = (("computed", "reverse"), ("other", "forward"))
        for name, mode in modes:
            number = self._first_order((mode,))[0]
            if self.compiles and not (self._is_torch and mode == "reverse"):
                number = self.language.compiled.format(function=number)
            yield f"\n{name} = {self.language.number.format(array=f'{number}(inputs)')}"

    def end(self) -> str:
        half = FORMATS[self._parts].half
        return _DISAGREE.format(
            title=title_of(self.finding), version=self.language.version, half=half
        )


class OfBehaviour(Derivative):
    """The part of a script that shows how a layer behaves."""

    takes_pairs = False

    def parts(self) -> Iterator[str]:
        finding, layer, language = self.finding, self.layer, self.language
        if self.compiles:
            compiled = f"{layer.name} = {language.compiled.format(function=layer.name)}"
            layer = replace(layer, made=f"{layer.made}\n{compiled}".strip())
        inputs = [*self._rows()]
        yield "\n".join(part for part in (language.before, layer.made, *inputs) if part)
        moving = [name for name, one in self.inputs.items() if self._moves(name, one)]
        framework = FRAMEWORKS[finding.engine or ""]
        shown = Behaviour(finding, layer, framework, language.version, moving, self.seed)
        yield from ("\n" + lines for lines in shown.lines())

    def end(self) -> str:
        return ""
