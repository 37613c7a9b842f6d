"""The part of a script that shows how a layer behaves: a normal run, and a run under the condition
of the finding, which differs. The framework's own numbers prove it, without any truth."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from gradcheck_cli.domain.behaviour import Way
from gradcheck_cli.domain.codes import CODES, Codes
from gradcheck_cli.domain.dtypes import FORMATS, parts_of
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.report.repro.layer_code import LayerCode, NoScript
from gradcheck_cli.report.repro.numpy_code import PairCode

OF_BEHAVIOUR = (
    Codes.MODES_DISAGREE,
    Codes.MISSING_OUTPUT,
    Codes.STOCHASTIC,
    Codes.NONDETERMINISTIC,
    Codes.INPUT_MUTATED,
    Codes.UPSTREAM_MUTATED,
    Codes.STATEFUL_GRADIENT,
    Codes.LAYOUT_DEPENDENT,
    Codes.NONLINEAR_BACKWARD,
    Codes.REQUEST_DEPENDENT,
)

_RUNS = {
    "torch": """
def upstream(y):
    return torch.linspace(-1, 2, y.numel(), dtype=y.dtype).reshape(y.shape)


def graph(inputs):
    leaves = {{name: x.detach().requires_grad_(x.requires_grad) for name, x in inputs.items()}}
    # The layer may write to what it is given, but not to a leaf.
    inputs = {{name: x.clone() if x.is_contiguous() else x for name, x in leaves.items()}}
    {seeded}
    return {call}, leaves, inputs


def pulled(y, leaves, y_bar, **settings):
    x = {leaf}
    (x_bar,) = torch.autograd.grad(y, x, y_bar, allow_unused=True, **settings)
    return torch.zeros_like(x) if x_bar is None else x_bar


def result(inputs, upstream=upstream):
    y, leaves, _ = graph(inputs)
    return {result}


def numbers(array):
    return array.detach().reshape(-1).tolist()
""",
    "tensorflow": """
def upstream(y):
    row = tf.linspace(tf.constant(-1, y.dtype), tf.constant(2, y.dtype), tf.size(y))
    return tf.reshape(row, tf.shape(y))


def result(inputs, upstream=upstream):
    {seeded}
    with tf.GradientTape() as tape:
        tape.watch({leaf})
        y = {call}
    return {result}


def numbers(array):
    return tf.reshape(tf.convert_to_tensor(array), [-1]).numpy().tolist()
""",
    "jax": """
def upstream(y):
    return jax.numpy.linspace(-1, 2, y.size, dtype=y.dtype).reshape(y.shape)


def result(inputs, upstream=upstream):
    y, pull = jax.vjp(lambda x: (lambda inputs: {call})({{**inputs, {name!r}: x}}), {leaf})
    return {result}


def numbers(array):
    return array.reshape(-1).tolist()
""",
    "numpy": """
def upstream(y):
    y = np.asarray(y)
    return np.linspace(-1, 2, y.size).astype(y.dtype).reshape(y.shape)


def graph(inputs):
    {seeded}
    y = {call}
    {settled}

    def pull(y_bar):
{picked}
        return np.asarray(gradient)

    return y, pull


def result(inputs, upstream=upstream):
    y, pull = graph(inputs)
    return {result}


def numbers(array):
    return np.ravel(array).tolist()
""",
}
"""The value or one gradient of the layer, as it is run as usual, by framework."""

_SEEDS = {
    "torch": "torch.manual_seed({seed})",
    "tensorflow": "tf.random.set_seed({seed})",
    "numpy": "np.random.seed({seed})",
}
_GRADIENTS = {
    "torch": "pulled(y, leaves, upstream(y))",
    "tensorflow": "tape.gradient(y, {leaf}, upstream(y), unconnected_gradients='zero')",
    "jax": "pull(upstream(y))[0]",
    "numpy": "pull(upstream(y))",
}
_IS_OUTPUT = {
    "torch": "isinstance(y, torch.Tensor) and y.is_floating_point() and y.numel() > 0",
    "tensorflow": "tf.is_tensor(y) and y.dtype.is_floating and tf.size(y) > 0",
    "jax": "isinstance(y, jax.Array) and y.dtype.kind == 'f' and y.size > 0",
    "numpy": "isinstance(y, np.ndarray) and y.dtype.kind == 'f' and y.size > 0",
}

_LAYOUTS = {
    "transposed": (
        "transposed in memory",
        """
def laid_out(x):
    axes = [*range(x.ndim)]
    order = axes[2:] + axes[:2] if x.ndim > 2 else axes[::-1]
    return x.permute(order).contiguous().permute(sorted(axes, key=order.__getitem__))
""",
    ),
    "sliced": (
        "a slice with gaps in memory",
        """
def laid_out(x):
    wide = torch.full((*x.shape, 2), float("nan")).to(x)
    wide[..., 0] = x
    return wide[..., 0]
""",
    ),
    "expanded": (
        "expanded (stride 0)",
        """
def laid_out(x):
    return x[:1].clone().expand(x.shape) if x.ndim else x
""",
    ),
}
"""The words of the message for each layout, and what lays an array out."""

_TURNED = """
def turned(inputs, again=lambda x: x):
    every = {name: again(laid_out(x.detach())) for name, x in inputs.items()}
    return {name: x.requires_grad_(inputs[name].requires_grad) for name, x in every.items()}
"""


@dataclass(frozen=True, slots=True)
class _Run:
    """How the second run differs from the normal one: the `words` of the message, and the
    statements that set `expected` and `found`. `frameworks`: those that it is written for."""

    words: str
    lines: str
    frameworks: Sequence[str] = ("torch",)


_MODES = """
x_dots = {{name: upstream(x).detach() for name, x in inputs.items() if x.requires_grad}}
with torch.autograd.forward_ad.dual_level():
    duals = {{
        name: torch.autograd.forward_ad.make_dual(x.detach(), x_dots[name]) if name in x_dots else x
        for name, x in inputs.items()
    }}
    y = (lambda inputs: {call})(duals)
    y_dot = torch.autograd.forward_ad.unpack_dual(y).tangent
    found = (upstream(y) * y_dot).sum()
y, leaves, _ = graph(inputs)
x_bars = torch.autograd.grad(y, [leaves[name] for name in x_dots], upstream(y))
expected = sum((x_bar * x_dot).sum() for x_bar, x_dot in zip(x_bars, x_dots.values()))
"""
"""The product <v, J u> of both modes, for the same v and u."""

_TWICE = "expected = result(inputs)\nfound = result(inputs)"
_ALL = tuple(_RUNS)
OTHER_RUNS: Mapping[Way, _Run] = {
    "random": _Run("the layer draws random numbers", _TWICE, (*_SEEDS,)),
    "again": _Run("called twice with the same input and the same random numbers", _TWICE, _ALL),
    "counted": _Run("it depends on how often the layer was called", _TWICE, _ALL),
    "added up": _Run("grows by the same amount at every call", _TWICE, _ALL),
    "after another": _Run(
        "before and after a call with another input",
        "expected = result(inputs)\nresult(other)\nfound = result(inputs)",
        _ALL,
    ),
    "fresh": _Run(
        "for an input on a fresh layer, and for the same input after another",
        "result(inputs)\nfound = result(other)\n{made}\nexpected = result(other)",
        _ALL,
    ),
    "second call": _Run(
        "in the first call of an object, and in its second call",
        "expected = result(inputs)\n{made}\nresult(other)\nfound = result(inputs)",
        _ALL,
    ),
    "another between": _Run(
        "with another forward run between a forward and its backward",
        "expected = result(inputs)\ny, leaves, _ = graph(inputs)\ngraph(other)\n"
        "found = pulled(y, leaves, upstream(y))",
    ),
    "first kept": _Run(
        "for another input the gradient",
        "result(inputs)\nx_bar = result(other)\n"
        "x_dot = (other[{name!r}] - inputs[{name!r}]).detach()\n\n\ndef along(step):\n"
        "    y = graph({{**other, {name!r}: other[{name!r}] + step * x_dot}})[0]\n"
        "    return (upstream(y) * y).sum()\n\n\n"
        "found, expected = (x_bar * x_dot).sum(), (along(1e-3) - along(-1e-3)) / 2e-3",
    ),
    "one graph": _Run(
        "over one graph",
        "y, leaves, _ = graph(inputs)\n"
        "expected = pulled(y, leaves, upstream(y), retain_graph=True)\n"
        "found = pulled(y, leaves, upstream(y))",
    ),
    "gradient overwritten": _Run(
        "is overwritten by the next one",
        "y, leaves, _ = graph(inputs)\n"
        "found = pulled(y, leaves, upstream(y), retain_graph=True)\n"
        "expected = found.clone()\npulled(y, leaves, 2 * upstream(y))",
    ),
    "output written backward": _Run(
        "the backward writes to the output",
        "y, leaves, _ = graph(inputs)\nexpected = y.detach().clone()\n"
        "found = y.detach()\npulled(y, leaves, upstream(y))",
    ),
    "own .grad": _Run(
        "adds to the `.grad` of",
        "expected = torch.zeros_like({leaf})\nresult(inputs)\nfound = {leaf}.grad",
    ),
    "input written": _Run(
        "writes to its input",
        "y, leaves, given = graph(inputs)\nexpected, found = leaves[{name!r}], given[{name!r}]",
    ),
    "input written backward": _Run(
        "the backward writes to the input",
        "y, leaves, given = graph(inputs)\npulled(y, leaves, upstream(y))\n"
        "expected, found = leaves[{name!r}], given[{name!r}]",
    ),
    "parameter written": _Run(
        "the forward run writes to the",
        "expected = {leaf}.detach().clone()\ngraph(inputs)\nfound = {leaf}",
    ),
    "upstream written": _Run(
        "the backward writes to the upstream gradient",
        "y, leaves, _ = graph(inputs)\nexpected, found = upstream(y), upstream(y)\n"
        "pulled(y, leaves, found)",
    ),
    "parameter written backward": _Run(
        "the backward writes to the",
        "y, leaves, _ = graph(inputs)\nexpected = {leaf}.detach().clone()\n"
        "pulled(y, leaves, upstream(y))\nfound = {leaf}",
    ),
    "upstream layout": _Run(
        "where the upstream gradient is",
        "expected = result(inputs)\nfound = result(inputs, lambda y: laid_out(upstream(y)))",
    ),
    "input layout": _Run(
        "where an input is", "expected = result(inputs)\nfound = result(turned(inputs))"
    ),
    "multiple": _Run(
        "times the upstream gradient",
        "expected = {factor} * result(inputs)\n"
        "found = result(inputs, lambda y: {factor} * upstream(y))",
        _ALL,
    ),
    "zero": _Run(
        "for an upstream gradient of zero",
        "expected = 0 * result(inputs)\nfound = result(inputs, lambda y: 0 * upstream(y))",
        _ALL,
    ),
    "sum": _Run(
        "for the sum of two upstream gradients",
        "expected = result(inputs) + result(inputs, lambda y: upstream(y) ** 2)\n"
        "found = result(inputs, lambda y: upstream(y) + upstream(y) ** 2)",
        _ALL,
    ),
    "untracked": _Run(
        "when no gradients are tracked",
        "expected = graph(inputs)[0]\nwith torch.no_grad():\n    found = graph(inputs)[0]",
    ),
    "some leaves": _Run(
        "where only",
        "expected = result(inputs)\nwanted = {wanted}\n"
        "for name, one in getattr({layer}, 'named_parameters', tuple)():\n"
        "    one.requires_grad_(name in wanted)\n"
        "found = result({{name: x.detach().requires_grad_(name in wanted) "
        "for name, x in inputs.items()}})",
    ),
    "one output": _Run(
        "is the only output in use",
        "y, leaves, _ = graph(inputs)\n"
        "every = [one for one in (y.values() if isinstance(y, dict) else y) if one.requires_grad]\n"
        "rows = [upstream(one) * (one is {output}) for one in every]\n"
        "expected = pulled(every, leaves, rows, retain_graph=True)\n"
        "found = pulled({output}, leaves, upstream({output}))",
    ),
    "forward mode": _Run("by forward mode", _MODES),
}
_OF_PAIRS: Mapping[Way, str] = {
    "another between": "expected = result(inputs)\ny, pull = graph(inputs)\ngraph(other)\n"
    "found = pull(upstream(y))",
    "one graph": "y, pull = graph(inputs)\nexpected = np.copy(pull(upstream(y)))\n"
    "found = pull(upstream(y))",
    "gradient overwritten": "y, pull = graph(inputs)\nfound = pull(upstream(y))\n"
    "expected = np.copy(found)\npull(2 * upstream(y))",
    "output written backward": "y, pull = graph(inputs)\nexpected, found = np.copy(y), y\n"
    "pull(upstream(y))",
    "input written": "expected = np.copy({leaf})\ngraph(inputs)\nfound = {leaf}",
    "input written backward": "y, pull = graph(inputs)\nexpected = np.copy({leaf})\n"
    "pull(upstream(y))\nfound = {leaf}",
    "upstream written": "y, pull = graph(inputs)\nexpected, found = upstream(y), upstream(y)\n"
    "pull(found)",
}
"""Of pairs of NumPy, where the statements are none of all frameworks."""

_EXPANDED: Mapping[Way, str] = {
    "upstream layout": "expected = result(inputs, torch.ones_like)\n"
    "found = result(inputs, lambda y: laid_out(torch.ones_like(y)))",
    "input layout": "expected = result(turned(inputs, torch.Tensor.contiguous))\n"
    "found = result(turned(inputs))",
}
"""The statements for arrays that are expanded, whose numbers are equal."""

_COMPARED = """
def apart(pair):
    return abs(pair[0] - pair[1]) if pair[0] == pair[0] else float("inf")


expected, found = numbers(expected), numbers(found)
computed, usual = max(zip(found, expected), key=apart)
print({title!r})
print("with", {version}, "on Python", sys.version.split()[0])
print("computed:", computed, {words!r})
print("as usual:", usual)
sys.exit(0 if apart((computed, usual)) <= {half!r} * max(map(abs, expected)) else 1)
"""
_TRIED = """
try:
{lines}
except Exception as error:
    print("computed: the layer raises", f"{{type(error).__name__}}: {{str(error).strip()}}")
    sys.exit(1)
"""
_RETURNED = """
{seeded}
y = {call}
print({title!r})
print("with", {version}, "on Python", sys.version.split()[0])
print("computed:", "None" if y is None else type(y).__name__, {words!r})
sys.exit(0 if {is_output} else 1)
"""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Shows how the `layer` of a finding behaves, in the language of a framework. `inputs` are the
    names of its differentiated inputs; `version` is an expression."""

    finding: Finding
    layer: LayerCode
    framework: str
    version: str
    inputs: Sequence[str]
    seed: int

    def lines(self) -> Iterator[str]:
        """The statements that follow the construction of the layer and its inputs. Raises
        NoScript."""
        if self.finding.code == Codes.MISSING_OUTPUT:
            words = f"({self.finding.message})"
            yield self._filled_template(
                _RETURNED, is_output=_IS_OUTPUT[self.framework], words=words
            )
            return
        other = self.finding.other_run
        run = None if other is None else OTHER_RUNS[other.way]
        own = _OF_PAIRS if isinstance(self.layer, PairCode) else {}
        if (
            other is None
            or run is None
            or not {self.framework, other.way} & {*run.frameworks, *own}
        ):
            raise NoScript("no run of the framework alone shows how it behaves")
        result = "y" if other.of_value else self._filled_template(_GRADIENTS[self.framework])
        yield self._filled_template(_RUNS[self.framework], result=result)
        words, lines = run.words, own.get(other.way, run.lines)
        if other.layout:
            in_memory, laid_out = _LAYOUTS[other.layout]
            words = f"{words} {in_memory}"
            lines = _EXPANDED[other.way] if other.layout == "expanded" else lines
            yield laid_out
        if "turned" in lines:
            yield _TURNED
        if "other" in lines:
            moved = "".join(f", {name!r}: 1.015625 * inputs[{name!r}]" for name in self.inputs)
            yield f"other = {{**inputs{moved}}}"
        lines = self._filled_template(lines)
        if other.raises:
            lines = _TRIED.format(lines=textwrap.indent(lines, "    "))
        yield lines
        half = FORMATS[parts_of(self._dtype)].half
        yield self._filled_template(_COMPARED, words=f"({words})", half=half)

    @property
    def _dtype(self) -> str:
        return self.finding.dtype or "float64"

    def _filled_template(self, text: str, **more: object) -> str:
        """The template with its placeholders replaced by the expressions of this layer."""
        finding = self.finding
        title = f"{finding.code} {CODES[finding.code].name}: {finding.engine}, {self._dtype}"
        is_random = finding.code == Codes.STOCHASTIC
        seeded = "" if is_random else _SEEDS.get(self.framework, "").format(seed=self.seed)
        known = {
            "call": self.layer.call,
            "made": self.layer.made,
            "layer": self.layer.name,
            "seeded": seeded,
            "title": title,
            "version": self.version,
            "name": self._name,
            "leaf": self._leaf,
            **more,
        }
        if isinstance(self.layer, PairCode):
            picked = textwrap.indent(self.layer.picked(self._name, self.inputs), " " * 8)
            known |= {"settled": self.layer.settled, "picked": picked}
        if other := finding.other_run:
            known |= {"factor": other.factor, "wanted": other.names, "output": "".join(other.names)}
        return text.format(**known).replace("    \n", "")

    @property
    def _name(self) -> str:
        """The input or parameter that the finding is about, or the first one that its message
        names."""
        if self.finding.input is not None:
            return self.finding.input
        other = self.finding.other_run
        named = other.names if other is not None and other.way == "own .grad" else self.inputs
        if not named:
            raise NoScript("no input is differentiated")
        return named[0]

    @property
    def _leaf(self) -> str:
        name = self._name
        if name in self.inputs:
            return f"{'leaves' if self.framework == 'torch' else 'inputs'}[{name!r}]"
        if self.framework != "torch" or not self.layer.made:
            raise NoScript(f"`{name}` is no input")
        return f"{self.layer.name}.get_parameter({name!r})"
