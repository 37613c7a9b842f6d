"""A finding as a script: it imports nothing but the framework, prints the computed and the true
number, and exits with 1."""

from __future__ import annotations

from dataclasses import replace

from gradcheck_cli.domain.codes import CODES, NAN_OR_INFINITE, Codes
from gradcheck_cli.domain.engines import UNCOMPILED
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.explain.fixes.code import code_of
from gradcheck_cli.report.repro.behaviour import OF_BEHAVIOUR
from gradcheck_cli.report.repro.derivative import Derivative
from gradcheck_cli.report.repro.ending import half_of, known_by
from gradcheck_cli.report.repro.languages import FRAMEWORKS, LANGUAGES
from gradcheck_cli.report.repro.layer_code import LayerCode, NoScript, layer_code
from gradcheck_cli.report.repro.numpy_code import pair_code
from gradcheck_cli.report.repro.other_scripts import (
    BothModes,
    KindOfGradient,
    LostOutput,
    OfBehaviour,
    OfPair,
)

_OF_A_KIND = (
    Codes.WRONG_SHAPE_OR_DTYPE,
    Codes.ENGINE_RAISED,
    Codes.WRONG_SECOND_DERIVATIVE,  # which the framework refuses
)


def script(finding: Finding, spec: Spec, seed: int = 0) -> str:
    """The script. Raises NoScript if no script can show the finding."""
    engine = finding.engine or ""
    if engine == "eigen":
        return _of_cpp(finding, spec)
    if engine not in FRAMEWORKS:
        raise NoScript(f"there are scripts for {', '.join((*FRAMEWORKS, 'eigen'))}")
    kind = _kind(finding)
    framework = FRAMEWORKS[engine]
    language, compiles = LANGUAGES[framework], engine in UNCOMPILED
    if kind is OfBehaviour and finding.dtype is None:
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
    from gradcheck_cli.report.repro.cpp_code import cpp_script

    entry = finding.entries[0] if finding.entries else None
    is_lost = entry is None and finding.code == Codes.NON_FINITE_OUTPUT
    if not is_lost and (entry is None or entry.computed is None):
        raise NoScript("it has no number whose true value is known")
    known, half = (known_by(finding), half_of(entry)) if entry else ("", 0.0)
    return cpp_script(finding, spec, known, half)


def _kind(finding: Finding) -> type[Derivative]:
    """The class that writes the script of a finding. Raises NoScript."""
    is_pair = finding.engine == "numpy"
    if is_pair and finding.code in OF_BEHAVIOUR and not finding.entries:
        return OfBehaviour
    if is_pair and not (finding.entries and finding.entries[0].truth is not None):
        raise NoScript("it has no number whose true value is known")
    has_number = bool(finding.entries) and finding.entries[0].computed is not None
    if finding.code == Codes.NON_FINITE_OUTPUT:  # whatever it should be
        return Derivative if has_number else LostOutput
    if finding.entries and finding.entries[0].truth is not None:
        return OfPair if is_pair else Derivative
    if finding.code in NAN_OR_INFINITE and has_number:
        return Derivative
    if finding.code == Codes.MODES_DISAGREE and finding.entries:
        return BothModes
    if finding.code in _OF_A_KIND and not finding.entries:
        return KindOfGradient
    if finding.code in OF_BEHAVIOUR and not finding.entries:
        return OfBehaviour
    raise NoScript("it has no number whose true value is known")


def _function(finding: Finding, spec: Spec, framework: str, seed: int) -> LayerCode:
    """The differentiated function: the formula in the language of the framework, or the user's
    layer."""
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
