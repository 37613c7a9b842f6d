"""Documented approximations: the program with a framework's own formula in place of a row, enclosed
like the program itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.program import CUSTOM, CustomGradient, Node, Program
from gradcheck_cli.domain.truth import Documented, Truth, TruthBlock
from gradcheck_cli.engines.documented import DOCUMENTED
from gradcheck_cli.engines.reference.engine import ReferenceEngine
from gradcheck_cli.truth.certified.enclose import certify, certify_output
from gradcheck_cli.truth.conditioning.rounding_cost import with_costs
from gradcheck_cli.truth.gradients import float64_gradients
from gradcheck_cli.truth.plain import inlined


def documented(request: TruthRequest, engine: ReferenceEngine) -> tuple[Documented, ...]:
    """Return one entry for each engine of `DOCUMENTED` that approximates a row of the program.

    An entry that cannot be enclosed is the reference engine's in float64, with the distance between
    its modes as an error bar. A custom gradient counts as its forward, as it does for the truth.
    """
    approximations: list[Documented] = []
    known: dict[tuple[tuple[int, str], ...], Truth] = {}
    nodes = request.program.nodes
    for name, rows in DOCUMENTED.items():
        formulas = {
            i: rows[node.op].formula
            for i, node in enumerate(nodes)
            if node.op in rows and not node.keywords.get("approximate")
        }
        if not formulas:
            continue
        key = tuple(formulas.items())
        if key not in known:
            known[key] = _numbers(replace(request, program=_with(request, formulas)), engine)
        numbers, first = known[key], nodes[min(formulas)]
        approximations.append(
            Documented(
                engine=name,
                row=first.op,
                says=rows[first.op].says,
                source=rows[first.op].source,
                span=first.span,
                text=first.text,
                output=numbers.output,
                output_error=numbers.output_error,
                output_cost=numbers.output_cost,
                blocks=numbers.blocks,
            )
        )
    return tuple(approximations)


def _with(request: TruthRequest, formulas: Mapping[int, str]) -> Program:
    """The program with these formulas in place of nodes."""
    program = request.program
    nodes = list(program.nodes)
    for index, formula in formulas.items():
        node = nodes[index]
        body = _body(formula, node, [program.nodes[i] for i in node.args])
        rule = CustomGradient(f"{node.op}, as documented", body, body)
        nodes[index] = replace(node, op=CUSTOM, keywords={}, custom=rule)
    return inlined(replace(program, nodes=tuple(nodes)))


def _body(formula: str, node: Node, arguments: list[Node]) -> Program:
    from gradcheck_cli.formula import Argument, parse  # few programs have such a row
    from reference_engine.traced import ROWS

    names = ROWS[node.op].arrays
    reduction = {**ROWS[node.op].keywords, **node.keywords}.get("reduction", "none")
    if reduction != "none":
        *before, last = formula.splitlines()
        formula = "\n".join([*before, f"{reduction}({last})"])
    inputs = {
        name: Argument(argument.shape, argument.kind)
        for name, argument in zip(names, arguments, strict=True)
    }
    program = parse(formula, inputs=inputs).program
    assert program is not None
    return program


def _numbers(request: TruthRequest, engine: ReferenceEngine) -> Truth:
    """The truth of a program with costs of rounding, but without kinds of points."""
    plain = float64_gradients(request, engine)
    blocks: dict[tuple[str, str], TruthBlock] = {}
    for key, certificate in certify(request).items():
        value = np.where(certificate.sure, certificate.value, plain.true[key])
        bar = np.where(certificate.sure, certificate.radius, plain.spread[key])
        blocks[key] = TruthBlock.of(value, bar, certified=certificate.sure)
    output = certify_output(request)
    few = FORMATS["float64"].ulp(plain.output)
    numbers = Truth(
        dtype=request.dtype,
        output=np.where(output.sure, output.value, plain.output),
        output_error=np.where(output.sure, output.radius, few),
        blocks=blocks,
    )
    return with_costs(numbers, request, engine)
