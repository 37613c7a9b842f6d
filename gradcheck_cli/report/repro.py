"""A finding as a script: it imports the framework alone, prints the computed and the true number,
and exits with 1."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from gradcheck_cli.domain.blocks import HessianBlock
from gradcheck_cli.domain.codes import CODES, Codes
from gradcheck_cli.domain.dtypes import COMPLEX, FORMATS, joined, parts_of
from gradcheck_cli.domain.engines import FRAMEWORK_OF, UNCOMPILED
from gradcheck_cli.domain.evaluation import COMPOSED, Mode
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Entry, Finding
from gradcheck_cli.domain.spec import Input, Spec
from gradcheck_cli.explain.fixes.code import code_of
from gradcheck_cli.report.layer_code import LayerCode, NoScript, layer_code
from gradcheck_cli.report.numpy_code import PairCode, pair_code
from gradcheck_cli.report.repro_behaviour import OF_BEHAVIOUR, Behaviour


@dataclass(frozen=True, slots=True)
class Language:
    """How a framework says it: what it imports, its version, an array, a product of arrays as one
    array, the sum of an array, the number in that, the numbers of an array as a list, how it
    compiles a function, how a number is computed without a compiler, the dtype of an array, the
    complex array of pairs along the last axis, and statements that make pairs of a complex `y`.
    `reverse` and `forward` define `by_reverse` and `by_forward`: the derivative of a function of
    all inputs by one entry of one of them (`_rule_along`: along a direction)."""

    imports: str
    version: str
    array: str
    product: str
    total: str
    number: str
    numbers: str
    compiled: str
    uncompiled: str
    dtype: str
    joined: str
    pairs: str
    reverse: str
    forward: str
    before: str = ""


_TORCH = Language(
    imports="import torch",
    version='"torch", torch.__version__',
    array="torch.tensor({value}, dtype=torch.{dtype}{leaf})",
    product="({y}.reshape(-1) * y_bar).sum()",
    total="{y}.sum()",
    number="{array}.item()",
    numbers="{array}.reshape(-1).tolist()",
    compiled="torch.compile({function})",
    uncompiled='with torch.compiler.set_stance("force_eager"):\n    uncompiled = {number}',
    dtype='str({array}.dtype).removeprefix("torch.")',
    joined="torch.view_as_complex({array})",
    pairs="if y.is_complex():\n        y = torch.view_as_real(y)",
    reverse="""
def by_reverse(function, name, index):
    def derivative(inputs):
        (x_bar,) = torch.autograd.grad(function(inputs), inputs[name], allow_unused=True)
        return None if x_bar is None else x_bar[index]

    return derivative
""",
    forward="""
def by_forward(function, name, index):
    def derivative(inputs):
        x = inputs[name]
        x_dot = torch.zeros_like(x)
        x_dot[index] = 1
        return torch.func.jvp(lambda x: function({**inputs, name: x}), (x,), (x_dot,))[1]

    return derivative
""",
)
_DUAL = """
def by_forward(function, name, index):
    def derivative(inputs):
        x_dot = torch.zeros_like(inputs[name])
        x_dot[index] = 1
        with torch.autograd.forward_ad.dual_level():
            x = torch.autograd.forward_ad.make_dual(inputs[name], x_dot)
            value = function({**inputs, name: x})
            return torch.autograd.forward_ad.unpack_dual(value).tangent

    return derivative
"""
"""Forward mode of PyTorch where nothing inside is in forward mode."""

_REVERSE_AGAIN = """
def by_reverse(function, name, index):
    def derivative(inputs):
        value = function(inputs)
        if value is None or not value.requires_grad:
            return None
        (x_bar,) = torch.autograd.grad(value, inputs[name], create_graph=True, allow_unused=True)
        return None if x_bar is None else x_bar[index]

    return derivative
"""
"""Reverse mode of PyTorch where what it gives is differentiated again."""

_COMPILED_REVERSE = """
def by_compiled_reverse(function, name, index):
    def derivative(inputs):
        return torch.func.grad(lambda x: function({**inputs, name: x}))(inputs[name])[index]

    return derivative
"""
"""Reverse mode inside of what `torch.compile` compiles."""

_CAPTURED_REVERSE = """
def by_reverse(function, name, index):
    def derivative(inputs):
        y = function(inputs)
        with torch._dynamo.compiled_autograd._enable(torch.compile, dynamic=False):
            (x_bar,) = torch.autograd.grad(y, inputs[name], allow_unused=True)
        return None if x_bar is None else x_bar[index]

    return derivative
"""
"""Reverse mode of PyTorch by compiled autograd."""

_ALONG = """
def along_directions(function):
    def derivative(inputs):
        terms = [(u, by_{inner}(function, *entry)(inputs)) for entry, u in directions.items()]
        known = [u * x_bar for u, x_bar in terms if x_bar is not None]
        return sum(known) if known else None

    return derivative
"""
"""The derivative along a direction of all inputs, which the third derivative is of."""

_TENSORFLOW = Language(
    imports="import tensorflow as tf",
    version='"tensorflow", tf.__version__',
    array="tf.constant({value}, dtype=tf.{dtype})",
    product="tf.reduce_sum(tf.reshape({y}, [-1]) * y_bar)",
    total="tf.reduce_sum({y})",
    number="float({array})",
    numbers="tf.reshape({array}, [-1]).numpy().tolist()",
    compiled="tf.function({function}, jit_compile=True)",
    uncompiled="tf.config.run_functions_eagerly(True)\nuncompiled = {number}",
    dtype="{array}.dtype.name",
    joined="tf.complex({array}[..., 0], {array}[..., 1])",
    pairs="if y.dtype.is_complex:\n        y = tf.stack([tf.math.real(y), tf.math.imag(y)], -1)",
    reverse="""
def by_reverse(function, name, index):
    def derivative(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs[name])
            value = function(inputs)
        x_bar = tape.gradient(value, inputs[name])
        return None if x_bar is None else tf.convert_to_tensor(x_bar)[index]

    return derivative
""",
    forward="""
def by_forward(function, name, index):
    def derivative(inputs):
        x = inputs[name]
        one = tf.ones((), x.dtype)
        x_dot = tf.tensor_scatter_nd_update(tf.zeros_like(x), [index], [one]) if index else one
        others = [y for key, y in inputs.items() if key != name and y.dtype.is_floating]
        still = [tf.zeros_like(y) for y in others]
        with tf.autodiff.ForwardAccumulator([x, *others], [x_dot, *still]) as accumulator:
            value = function(inputs)
        return accumulator.jvp(value)

    return derivative
""",
)
_JAX = Language(
    imports="import jax",
    version='"jax", jax.__version__',
    array="jax.numpy.array({value}, dtype=jax.numpy.{dtype})",
    product="({y}.reshape(-1) * y_bar).sum()",
    total="{y}.sum()",
    number="float({array})",
    numbers="{array}.reshape(-1).tolist()",
    compiled="jax.jit({function})",
    uncompiled="with jax.disable_jit():\n    uncompiled = {number}",
    dtype="{array}.dtype.name",
    joined="jax.lax.complex({array}[..., 0], {array}[..., 1])",
    pairs="if jax.numpy.iscomplexobj(y):\n        y = jax.numpy.stack([y.real, y.imag], -1)",
    reverse="""
def by_reverse(function, name, index):
    def derivative(inputs):
        return jax.grad(lambda x: function({**inputs, name: x}))(inputs[name])[index]

    return derivative
""",
    forward="""
def by_forward(function, name, index):
    def derivative(inputs):
        x = inputs[name]
        x_dot = jax.numpy.zeros_like(x).at[index].set(1)
        return jax.jvp(lambda x: function({**inputs, name: x}), (x,), (x_dot,))[1]

    return derivative
""",
    before='jax.config.update("jax_enable_x64", True)',
)
_NUMPY = Language(
    imports="import numpy as np",
    version='"numpy", np.__version__',
    array="np.array({value}, dtype=np.{dtype})",
    product="",
    total="",
    number="float({array})",
    numbers="np.ravel({array}).tolist()",
    compiled="",
    uncompiled="",
    dtype="",
    joined="",
    pairs="",
    reverse="",
    forward="",
)
"""It has no derivatives: a script calls the layer's own backward."""

_LANGUAGES = {"torch": _TORCH, "tensorflow": _TENSORFLOW, "jax": _JAX, "numpy": _NUMPY}
_FRAMEWORK_OF = {**FRAMEWORK_OF, "numpy": "numpy"}

_OF_A_KIND = (
    Codes.WRONG_SHAPE_OR_DTYPE,
    Codes.ENGINE_RAISED,
    Codes.WRONG_SECOND_DERIVATIVE,  # which the framework refuses
)
_OF_OUTPUTS = (Codes.WRONG_OUTPUT, Codes.NON_FINITE_OUTPUT, Codes.UNSTABLE_OUTPUT)
_MIXED = COMPOSED["forward-over-reverse"]
_DTYPES = {"i": "int64", "b": "bool"}
_COMPLEX = {parts: dtype for dtype, parts in COMPLEX.items()}
_KNOWN = {
    "certified": "enclosed in ball arithmetic",
    "confirmed": "higher precision, which differences of the function confirm",
    "finite-difference": "differences of the function",
    "one-sided-difference": "one-sided differences of the function",
}
_END = """
print({title!r})
print("with", {version}, "on Python", sys.version.split()[0])
print("computed:", computed)
print("true:    ", {truth!r}, {known!r})
"""
_WRONG = "sys.exit(0 if abs(computed - {truth!r}) <= {half!r} else 1)\n"
_WRONG_COMPILED = """print("without the compiler:", uncompiled)
right = max(2 * abs(uncompiled - {truth!r}), {part!r})
sys.exit(0 if abs(computed - {truth!r}) <= right else 1)
"""
_PART = 2.0**-6
"""Of the error of a finding, what counts as right of a compiler: its wrong numbers may differ from
run to run, as they may be what lies in memory."""
_NOT_FINITE = "sys.exit(0 if abs(computed) < float('inf') else 1)\n"
_MISSING = "sys.exit(0 if computed is not None else 1)\n"


_UNLISTED = "it is a product with random directions of too many numbers to list"

_By = tuple[str, str]
"""The first word of a rule's name, and the arguments that say by what it differentiates."""


def script(finding: Finding, spec: Spec, seed: int = 0) -> str:
    """The script. Raises NoScript where none can show the finding."""
    engine = finding.engine or ""
    if engine == "eigen":
        return _of_cpp(finding, spec)
    if engine not in _FRAMEWORK_OF:
        raise NoScript(f"there are scripts for {', '.join((*_FRAMEWORK_OF, 'eigen'))}")
    kind = _kind(finding)
    framework = _FRAMEWORK_OF[engine]
    language, compiles = _LANGUAGES[framework], engine in UNCOMPILED
    if kind is _Behaviour and finding.dtype is None:
        finding = replace(finding, dtype="float64")  # that layers are looked at in, if they can
    layer = _function(finding, spec, framework, seed)
    own = "\n".join(line for line in layer.source.splitlines() if line != language.imports)
    heading = CODES[finding.code].name, finding.message.replace("\\", "\\\\").replace('"""', "'''")
    derived = kind(finding, spec, language, compiles, layer, seed)
    parts = [
        '"""{}: {}"""'.format(*heading),
        "import sys",
        f"{language.imports}\n{own}",
        *derived.parts(),
    ]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n" + derived.end()


def _of_cpp(finding: Finding, spec: Spec) -> str:
    """A file of C++."""
    from gradcheck_cli.report.cpp_code import cpp_script

    entry = finding.entries[0] if finding.entries else None
    is_lost = entry is None and finding.code == Codes.NON_FINITE_OUTPUT
    if not is_lost and (entry is None or entry.computed is None):
        raise NoScript("it has no number whose true value is known")
    known, half = (_known(finding), _half(entry)) if entry else ("", 0.0)
    return cpp_script(finding, spec, known, half)


def _kind(finding: Finding) -> type[_Derivative]:
    """What kind of script a finding takes. Raises NoScript."""
    is_pair = finding.engine == "numpy"
    if is_pair and not (finding.entries and finding.entries[0].truth is not None):
        raise NoScript("it has no number whose true value is known")
    has_number = bool(finding.entries) and finding.entries[0].computed is not None
    if finding.code == Codes.NON_FINITE_OUTPUT:  # whatever it should be
        return _Derivative if has_number else _LostOutput
    if finding.entries and finding.entries[0].truth is not None:
        return _OfPair if is_pair else _Derivative
    if finding.code in (Codes.NAN_GRADIENT, Codes.INFINITE_GRADIENT) and has_number:
        return _Derivative
    if finding.code == Codes.MODES_DISAGREE and finding.entries:
        return _BothModes
    if finding.code in _OF_A_KIND and not finding.entries:
        return _KindOfGradient
    if finding.code in OF_BEHAVIOUR and not finding.entries:
        return _Behaviour
    raise NoScript("it has no number whose true value is known")


def shows(printed: str, finding: Finding) -> bool:
    """Whether a script printed the number that the finding has, or the dtype, the shape, the
    refusal or how it behaves. A wrong number of a compiler may differ from run to run: it is shown
    where the number without the compiler is right."""
    lines = [line.partition(": ") for line in printed.splitlines()]
    words = {said: " ".join(rest.split()) for said, _, rest in reversed(lines)}
    computed = words.get("computed", "")
    number = computed.partition(" ")[0]
    if not finding.entries:
        return _says(computed, " ".join(finding.message.split()))
    entry = finding.entries[0]
    if entry.computed is None or number in ("", "None"):
        return bool(number) and entry.computed is None and number == "None"
    if number == repr(entry.computed) or abs(float(number) - entry.computed) <= _half(entry):
        return True
    uncompiled = words.get("without the compiler")
    # such a script ends with 1 only where the compiled number is wrong
    return uncompiled is not None and abs(float(uncompiled) - (entry.truth or 0.0)) <= _half(entry)


def _says(computed: str, message: str) -> bool:
    """Whether a message has the words that a script printed: a dtype, a shape, what is raised, or
    those in brackets after a number, which is of a cotangent of its own."""
    in_brackets = re.fullmatch(r"\S+ \((.*)\)", computed)
    words = in_brackets[1] if in_brackets else computed
    dtype, _, is_kind = words.partition(" of shape ")
    wrong, *own = _SHAPE.findall(message.partition("has shape")[2]) or [None]
    shapes = _SHAPE.findall(words)
    if wrong is not None and shapes[:1] == [wrong] and shapes[1:] in ([], own):
        return True
    if is_kind:
        return f" is {dtype}," in message
    is_first = words and re.match(rf"{re.escape(words)}(?![\w.])", message.partition(" is ")[2])
    words = words.removesuffix(".")
    return bool(is_first) or (" " in words and words in message)


_SHAPE = re.compile(r"[\[(]([\d, ]*?),?[\])]")  # (3,) or [3]


def _function(finding: Finding, spec: Spec, framework: str, seed: int) -> LayerCode:
    """What is differentiated: the formula in the framework's words, or the user's layer."""
    for layer in spec.implementations:
        if layer.engine == finding.engine == "numpy":
            return pair_code(layer, list(spec.inputs))
        if layer.engine == finding.engine:
            return layer_code(layer, framework, finding.dtype or "", list(spec.inputs), seed)
    mode = finding.mode or ""
    # A function of JAX has one stated rule, and a Function of PyTorch those of both modes.
    forward = mode == "forward" or (framework == "torch" and "forward" in mode)
    source = code_of(spec.program, forward, deep=True).get(framework)
    if source is None:
        raise NoScript(f"{framework} cannot express an operation of the formula")
    return LayerCode(source, "", "f", "f(**inputs)")


@dataclass(frozen=True, slots=True)
class _Derivative:
    """The part of a script that computes the number."""

    finding: Finding
    spec: Spec
    language: Language
    compiles: bool
    layer: LayerCode
    seed: int
    takes_pairs: ClassVar[bool] = True  # for complex inputs

    def end(self) -> str:
        return _end(self.finding, self.language)

    def parts(self) -> Iterator[str]:
        modes, number, output = self._expression()
        yield "\n".join(part for part in self._objects(modes) if part)
        yield f"\ndef value(inputs):\n    {self._value(output)}"
        yield from ("\n" + rule for rule in self._used(modes, number))
        if (self.compiles and not self._is_torch) or self._is_compiled_whole(modes):
            number = self.language.compiled.format(function=number)
        number = f"{number}(inputs)"
        if self.finding.entries[0].computed is not None:
            number = self.language.number.format(array=number)
        yield f"\ncomputed = {number}"
        if self._compares:
            yield self.language.uncompiled.format(number=number)

    @property
    def _compares(self) -> bool:
        """Whether it also shows what is computed without the compiler, which is right."""
        return _is_of_compiler(self.finding)

    @property
    def _is_torch(self) -> bool:
        return self.language is _TORCH

    def _is_compiled_whole(self, modes: tuple[Mode, ...]) -> bool:
        """Whether `torch.compile` compiles the outermost transform, too: forward mode. Reverse mode
        differentiates what was compiled."""
        return self._is_torch and self.compiles and modes[:1] == ("forward",)

    def _value(self, output: tuple[int, ...]) -> str:
        """The statements of a function of real arrays, one output or the product with `y_bar`. Of a
        complex number, its parts are differentiated, whatever a framework calls its gradient."""
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
        """How often and how it is differentiated, the number as a function of the inputs, and the
        index of the output that it belongs to."""
        finding = self.finding
        if finding.code in _OF_OUTPUTS and finding.input is None:
            return (), "value", finding.entries[0].index
        mode: Any = finding.mode
        modes = COMPOSED.get(mode, (mode,))
        if len(modes) > 1:
            return modes, self._composed(modes), ()
        return modes, *self._first_order(modes)

    def _objects(self, modes: tuple[Mode, ...]) -> Iterator[str]:
        """The lines that make what is differentiated, and its inputs."""
        name, language = self.layer.name, self.language
        yield language.before
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
        """That of the output, flattened; of a first derivative, it is the one that the worst entry
        counts."""
        how, cotangents = self.finding.indexing, self.finding.cotangents
        counts = how is not None and how.cotangents and how.output_axes
        return cotangents[self.finding.entries[0].index[0] if counts else 0] if cotangents else ()

    def _tangents(self) -> Iterator[str]:
        """The lines of the directions whose product is the worst entry: `u` along the rows of a
        Hessian, and `v`."""
        finding = self.finding
        if not (finding.firsts or finding.columns):
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
        """The definitions of the transforms that an expression needs."""
        third = ""
        if len(modes) > 2:
            inner = "compiled_reverse" if self._is_torch and self.compiles else "reverse"
            third = _ALONG.format(inner=inner)
        for rule in self._rules(modes):
            for one in (rule, _rule_along(rule, self.language.total)):
                if f"{one.split()[1].partition('(')[0]}(" in number + third:
                    yield one
        yield from [third] * bool(third)

    def _rules(self, modes: tuple[Mode, ...]) -> Iterator[str]:
        """The definitions of the transforms, those of PyTorch as its engines take them."""
        compiles = self._is_torch and self.compiles
        if "reverse" in (modes[:1] if compiles else modes):
            again = self._is_torch and not compiles and len(modes) > 1
            captured = self.finding.engine == "torch-compiled-autograd"
            own = _CAPTURED_REVERSE if captured else self.language.reverse
            yield _REVERSE_AGAIN if again else own
        if compiles and "reverse" in modes[1:]:
            yield _COMPILED_REVERSE
        if "forward" in modes:
            dual = self._is_torch and not self.compiles and modes in (("forward",), _MIXED)
            yield _DUAL if dual else self.language.forward

    def _first_order(self, modes: tuple[Mode, ...]) -> tuple[str, tuple[int, ...]]:
        """The derivative as an expression, and the index of the output that is differentiated."""
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
        by, one = _by(finding.input or "", place, "v" * how.directions)
        return f"{by}_{modes[0]}(value, {one})", output

    def _composed(self, modes: tuple[Mode, ...]) -> str:
        """A second derivative as an expression. Where reverse mode is inside, it gives the gradient
        of the block's rows, of a layer in reverse over reverse that of its columns; where forward
        mode is, it moves along its columns."""
        finding, index = self.finding, self.finding.entries[0].index
        block = HessianBlock.named(finding.input or "", list(self.spec.inputs))
        axes = [self.inputs[name].value.ndim for name in (block.rows, block.columns)]
        if finding.firsts:
            axes[0] = 1
        if finding.columns:
            axes[1] = 1
        if len(index) != sum(axes):
            raise NoScript(_UNLISTED)
        rows = _by(block.rows, index[: axes[0]], "u" * bool(finding.firsts))
        columns = _by(block.columns, index[axes[0] :], "v" * bool(finding.columns))
        outer, inner, *_ = modes
        is_of_rows = inner == "reverse" and not (outer == "reverse" and self._is_layer)
        first, last = (rows, columns) if is_of_rows else (columns, rows)
        return self._nested(modes, first, last)

    def _nested(self, modes: tuple[Mode, ...], first: _By, last: _By) -> str:
        """The inner mode by one entry or along one direction (`first`), and the outer one by
        another, as an expression: of the value, or third order of its derivative along a
        direction."""
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
        if self.language is not _TORCH or self.finding.mode != "reverse" or not self.layer.made:
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
        """The dtype of real numbers."""
        return parts_of(self.finding.dtype or "float64")


class _KindOfGradient(_Derivative):
    """The part of a script that shows the dtype of a gradient, or that the framework raises."""

    def parts(self) -> Iterator[str]:
        modes, name = self._moved()
        if len(modes) > 2:
            raise NoScript("it is a third derivative")
        index = () if modes == ("reverse",) else (0,) * self.inputs[name].value.ndim
        by = _by(name, index)
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
        finding, (modes, name) = self.finding, self._moved()
        shape = self.inputs[name].value.shape if modes == ("reverse",) else ()
        usual = f"{finding.dtype} of shape {shape}"
        title, version = _title(finding), self.language.version
        truth = usual if finding.mode else "a gradient as its input is"
        end = _END.format(title=title, version=version, truth=truth, known="")
        return end + f"sys.exit(0 if computed == {usual!r} else 1)\n"

    def _moved(self) -> tuple[tuple[Mode, ...], str]:
        """The modes, and the input that is differentiated."""
        mode: Any = self.finding.mode or "reverse"
        name = self.finding.input
        if name not in self.inputs:
            name = next((n for n, one in self.inputs.items() if self._moves(n, one)), None)
        if name is None:
            raise NoScript("no input is differentiated")
        return COMPOSED.get(mode, (mode,)), name


class _OfPair(_Derivative):
    """The part of a script that runs a forward and a backward of NumPy."""

    takes_pairs = False

    def parts(self) -> Iterator[str]:
        finding, layer = self.finding, self.layer
        assert isinstance(layer, PairCode)
        yield "\n".join(part for part in (layer.made, *self._rows()) if part)
        if finding.code in _OF_OUTPUTS and finding.input is None:
            yield f"y = {layer.call}\n{layer.settled}"
            yield f"computed = float(np.asarray(y)[{finding.entries[0].index}])"
            return
        if self.finding.cotangents:
            raise NoScript("it is a product with random directions")
        _, output = self._first_order(("reverse",))
        index = finding.entries[0].index[len(output) :]
        floating = [name for name, one in self.inputs.items() if one.value.dtype.kind == "f"]
        how, upstream, part = finding.indexing, "1", ""
        if how is not None and how.complex_output:
            *_, is_imaginary = output
            output, upstream = output[:-1], "1j" if is_imaginary else "1"
        if how is not None and how.complex_input:
            index, part = index[:-1], ".imag" if index[-1] else ".real"
        yield layer.run(finding.input or "", output, index, floating, upstream, part)


class _LostOutput(_Derivative):
    """The part of a script that shows the first number of the output that is none."""

    def parts(self) -> Iterator[str]:
        yield "\n".join(part for part in self._objects(()) if part)
        value = f"(lambda inputs: {self.layer.call})"
        if self.compiles and not self._is_torch:
            value = self.language.compiled.format(function=value)
        numbers = self.language.numbers.format(array=f"{value}(inputs)")
        yield f"\nnumbers = {numbers}"
        yield "computed = next((y for y in numbers if not abs(y) < float('inf')), numbers[0])"

    def end(self) -> str:
        title, version = _title(self.finding), self.language.version
        why = self.finding.message.partition(": ")[2] or "not known"
        return _END.format(title=title, version=version, truth=why, known="") + _NOT_FINITE


class _BothModes(_Derivative):
    """The part of a script that shows one entry by reverse and by forward mode."""

    def parts(self) -> Iterator[str]:
        *parts, _ = super().parts()
        yield from parts
        dual = self._is_torch and not self.compiles
        rule = _DUAL if dual else self.language.forward
        along = bool(self.finding.columns)
        yield "\n" + (_rule_along(rule, self.language.total) if along else rule)
        modes: tuple[tuple[str, Mode], ...] = (("computed", "reverse"), ("other", "forward"))
        for name, mode in modes:
            number = self._first_order((mode,))[0]
            if self.compiles and not (self._is_torch and mode == "reverse"):
                number = self.language.compiled.format(function=number)
            yield f"\n{name} = {self.language.number.format(array=f'{number}(inputs)')}"

    def end(self) -> str:
        half = 2.0 ** -(FORMATS[self._parts].bits / 2)
        return _DISAGREE.format(
            title=_title(self.finding), version=self.language.version, half=half
        )


class _Behaviour(_Derivative):
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
        framework = FRAMEWORK_OF[finding.engine or ""]
        shown = Behaviour(finding, layer, framework, language.version, moving, self.seed)
        yield from ("\n" + lines for lines in shown.lines())

    def end(self) -> str:
        return ""


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


def _end(finding: Finding, language: Language) -> str:
    entry, title = finding.entries[0], _title(finding)
    end = _END.format(
        title=f"{title}, {finding.mode} mode" if finding.mode else title,
        version=language.version,
        truth="not known" if entry.truth is None else entry.truth,
        known=_known(finding),
    )
    if _is_of_compiler(finding):
        return end + _WRONG_COMPILED.format(truth=entry.truth, part=2 * _PART * _half(entry))
    if entry.truth is None:
        return end + _NOT_FINITE
    if entry.computed is None:
        return end + _MISSING
    return end + _WRONG.format(truth=entry.truth, half=_half(entry))


def _known(finding: Finding) -> str:
    """How the true number is known, in brackets."""
    source, error = finding.truth_source or "known", finding.entries[0].truth_error
    known = next((words for key, words in _KNOWN.items() if source.startswith(key)), "")
    bar = "" if error is None else f"± {error:.1e}, "
    return f"({bar}{source}{': ' * bool(known)}{known})" if source != "undecided" else ""


def _is_of_compiler(finding: Finding) -> bool:
    """Whether the compiler alone is wrong about a number."""
    if finding.code != Codes.COMPILED_GRADIENT or not finding.entries:
        return False
    return finding.entries[0].computed is not None and finding.entries[0].truth is not None


def _title(finding: Finding) -> str:
    return f"{finding.code} {CODES[finding.code].name}: {finding.engine}, {finding.dtype}"


def _half(entry: Entry) -> float:
    """Half of the distance between the computed number and the true one."""
    off = abs((entry.computed or 0.0) - (entry.truth or 0.0))
    return off / 2 if off < float("inf") else 0.0


def _by(name: str, index: tuple[int, ...], direction: str = "") -> _By:
    return ("along", f"{name!r}, {direction}") if direction else ("by", f"{name!r}, {index}")


def _rule_along(rule: str, total: str) -> str:
    """A rule by one entry of an input as the one along a direction of it."""
    lines = [line for line in rule.splitlines() if not _OF_UNIT.match(line)]
    text = "\n".join(lines).replace("by_", "along_").replace("index):", "x_dot):")
    product = total.format(y=r"(\2 * x_dot)")
    return _OF_ENTRY.sub(rf"\1{product}", text) + "\n"


_OF_UNIT = re.compile(r" +(x_dot|one)\b.* = ")  # a line that makes a unit vector
_OF_ENTRY = re.compile(r"(return (?:None if x_bar is None else )?)(.+)\[index\]$", re.M)


def _subscript(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]" if index else ""


def _number(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_number, value))}]"
    text = repr(value)
    return f"float({text!r})" if text in ("inf", "-inf", "nan") else text
