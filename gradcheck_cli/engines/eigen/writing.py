"""Writes a program as C++ over `Eigen::AutoDiffScalar`, with the arrays that it needs besides its
inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.program import CONSTANT, CUSTOM, INPUT, CustomGradient, Node, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.eigen.body import Body, Pools
from gradcheck_cli.engines.eigen.operations import expression
from gradcheck_cli.engines.eigen.rows import MADE, MATRICES
from gradcheck_cli.engines.errors import NodeFault, Unsupported, WrongShape

_HEAD = '#include "gradcheck.hpp"\n'
_MATRICES = '#include "gradcheck_matrices.hpp"\n'  # takes longer to compile than everything else
_FUNCTION = """
template <typename R, typename T>
{result} {name}(const gradcheck::Given<R>& given{parameters}) {{
  using namespace gradcheck;
"""
_ENTRY = """
GRADCHECK_EXPORT int gradcheck_{dtype}(
    const {real}* values, gradcheck::Index total, gradcheck::Index first, gradcheck::Index size,
    const {real}* directions, gradcheck::Index count, gradcheck::Index entries,
    const gradcheck::Index* maps, const {real}* constants, const gradcheck::Flag* flags,
    {real}* output, {real}* tangents) try {{
  const gradcheck::Given<{real}> given{{maps, constants, flags}};
  auto f = [&](const std::vector<gradcheck::Scalar<{real}>>& inputs) {{
    return program<{real}>(given, inputs);
  }};
  return gradcheck::drive<{real}>(
      f, values, total, first, size, directions, count, entries, output, tangents);
}} catch (const std::length_error&) {{
  return 1;
}}
"""
REALS = {"float32": "float", "float64": "double"}


@dataclass(slots=True)
class GeneratedCode:
    """`text` is a translation unit. Line `n` of it (from 1) belongs to node `nodes[n]`. `places`
    has the start of each input among all floating numbers. Maps, constants and flags are passed to
    the code."""

    text: str
    nodes: Mapping[int, int]
    places: Mapping[str, int]
    total: int
    maps: Array
    constants: Array
    flags: Array


def write(program: Program, values: Values, dtype: str) -> GeneratedCode:
    """The program in one dtype. `values` must have the inputs that are integers or masks.

    Raises NodeFault from Unsupported, which names an operation that is missing.
    """
    unit = _Unit(dtype, _has_matrices(program))
    body = Body(program, dtype, unit.pools)
    places: dict[str, int] = {}
    total = 0
    for name, index in program.inputs.items():
        if program.nodes[index].kind == "float":
            places[name] = total
            body.line(index, f"const auto n{index} = part(inputs, {total}, {body.size(index)});")
            total += body.size(index)
        else:
            body.known[index] = values[name]
    unit.operations(body)
    output = body.array(program.output, "float")
    unit.function("std::vector<T>", "program", ", const std::vector<T>& inputs", body, output)
    return GeneratedCode(
        text=unit.text + _ENTRY.format(dtype=dtype, real=REALS[dtype]),
        nodes=unit.nodes,
        places=places,
        total=total,
        maps=unit.pools.maps.all("int64"),
        constants=unit.pools.constants.all(dtype),
        flags=unit.pools.flags.all("uint8"),
    )


def _has_matrices(program: Program) -> bool:
    stated = [
        part
        for node in program.nodes
        if (rule := node.custom) is not None
        for part in (rule.forward, rule.vjp, rule.jvp)
        if part is not None
    ]
    return any(node.op in MATRICES for node in program.nodes) or any(map(_has_matrices, stated))


class _Unit:
    """A translation unit: the functions of a program's custom gradients, followed by the
    program."""

    def __init__(self, dtype: str, matrices: bool) -> None:
        self.text = _HEAD + (_MATRICES if matrices else "")
        self.nodes: dict[int, int] = {}
        self.pools = Pools()
        self._dtype = dtype
        self._stated = 0

    def function(
        self,
        result: str,
        name: str,
        parameters: str,
        body: Body,
        output: str,
        blame: int | None = None,
    ) -> None:
        """Append a function. Its lines belong to nodes of the program, or to `blame`."""
        self.text += _FUNCTION.format(result=result, name=name, parameters=parameters)
        before = self.text.count("\n")
        for number, index in enumerate(body.about, start=1):
            self.nodes[before + number] = index if blame is None else blame
        self.text += "".join(f"  {line}\n" for line in body.lines) + f"  return {output};\n}}\n"

    def operations(self, body: Body) -> None:
        """Write every node except inputs. Raises NodeFault."""
        for index, node in enumerate(body.program.nodes):
            if node.op == INPUT:
                continue
            try:
                self._node(body, index, node)
            except NodeFault as fault:  # of a custom rule, whose nodes are not the program's
                raise NodeFault(index) from fault.__cause__
            except Exception as error:
                raise NodeFault(index) from error

    def _node(self, body: Body, index: int, node: Node) -> None:
        if node.op == CONSTANT:
            body.known[index] = np.asarray(node.value)
        elif node.op == CUSTOM:
            body.line(index, f"const auto n{index} = {self._custom(body, index, node)};")
        elif all(arg in body.known for arg in node.args) or node.op in MADE:
            body.known[index] = body.evaluated(node)
        else:
            body.line(index, f"const auto n{index} = {expression(body, index, node)};")

    # ---- custom gradients

    def _custom(self, body: Body, index: int, node: Node) -> str:
        """The value of the forward with the derivatives of the custom rule: by its jvp if there is
        one, and otherwise by the vjp for each entry of the value."""
        rule = node.custom
        assert rule is not None
        _check_shapes(rule)
        self._stated += 1
        name = f"stated{self._stated}"
        fixed = _fixed(body, node, rule)
        moving = [arg for arg, value in zip(node.args, fixed, strict=True) if value is None]
        arrays = [body.name_of(index, body.array(arg, "float")) for arg in moving]
        plain = [body.let(index, f"plain({array})") for array in arrays]
        self._rule(f"{name}_value", rule.forward, fixed, rule.forward.outputs, index)
        y = f"{name}_value<R, T>({', '.join(['given', *plain])})[0]"
        moved = f"{{{', '.join(f'&{array}' for array in arrays)}}}"
        if rule.jvp is None:
            given = zip(rule.vjp.outputs, fixed, strict=True)
            outputs = [output for output, value in given if value is None]
            self._rule(f"{name}_vjp", rule.vjp, [None, *fixed], outputs, index)
            call = f"{name}_vjp<R, T>({', '.join(['given', 'y_bar', *plain])})"
            return f"pulled<T>({y}, {moved}, [&](const std::vector<T>& y_bar) {{ return {call}; }})"
        still = [None if value is None else np.zeros(value.shape) for value in fixed]
        self._rule(f"{name}_jvp", rule.jvp, [*still, *fixed], rule.jvp.outputs, index)
        tangents = [f"x_dot[{i}]" for i in range(len(arrays))]
        call = f"{name}_jvp<R, T>({', '.join(['given', *tangents, *plain])})"
        taken = "const std::vector<std::vector<T>>& x_dot"
        return f"pushed<T>({y}, {moved}, [&]({taken}) {{ return {call}; }})"

    def _rule(
        self,
        name: str,
        program: Program,
        fixed: Sequence[Array | None],
        outputs: Sequence[int | None],
        blame: int,
    ) -> None:
        """Write a function of the inputs that are not fixed, which returns a list of the
        outputs."""
        body = Body(program, self._dtype, self.pools)
        parameters = ""
        for index, value in zip(program.inputs.values(), fixed, strict=True):
            if value is None:
                parameters += f", const std::vector<T>& n{index}"
            else:
                body.known[index] = value
        self.operations(body)
        arrays = ["std::vector<T>{}" if i is None else body.array(i, "float") for i in outputs]
        result = f"{{{', '.join(arrays)}}}"
        self.function("std::vector<std::vector<T>>", name, parameters, body, result, blame)


def _fixed(body: Body, node: Node, rule: CustomGradient) -> list[Array | None]:
    """The values of the arguments of a custom gradient that are not floating; None for the
    others."""
    arrays: list[Array | None] = []
    for arg, index in zip(node.args, rule.forward.inputs.values(), strict=True):
        if rule.forward.nodes[index].kind == "float":
            arrays.append(None)
        elif arg in body.known:
            arrays.append(body.known[arg])
        else:
            raise Unsupported(f"`{rule.name}` takes a condition that depends on the inputs")
    return arrays


def _check_shapes(rule: CustomGradient) -> None:
    """Raise WrongShape if a custom gradient does not have the required shape."""
    forward, vjp = rule.forward, rule.vjp
    if rule.jvp is not None:
        tangent, shape = rule.jvp.result.shape, forward.result.shape
        if tangent != shape:
            raise WrongShape(rule.name, "the output", shape, tangent)
        return
    for (name, index), output in zip(forward.inputs.items(), vjp.outputs, strict=True):
        shape = forward.nodes[index].shape
        if output is not None and vjp.nodes[output].shape != shape:
            raise WrongShape(rule.name, name, shape, vjp.nodes[output].shape)
