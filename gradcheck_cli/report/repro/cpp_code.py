"""A finding of the C++ engine as one C++ file. It only includes Eigen; everything else that the
formula or the user's function needs is part of the file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradcheck_cli.domain.codes import CODES, Codes
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.indices import flat_of
from gradcheck_cli.domain.report import Entry, Finding
from gradcheck_cli.domain.spec import Input, Spec
from gradcheck_cli.engines.eigen.layer import unit
from gradcheck_cli.engines.eigen.writing import REALS, write
from gradcheck_cli.engines.errors import EngineFault, NodeFault
from gradcheck_cli.engines.kit.walker import rounded
from gradcheck_cli.report.repro.layer_code import NoScript

_HEADERS = Path(write.__code__.co_filename).parent
_OWN = re.compile(r'^#include "(gradcheck\w*\.hpp)"\n', re.M)
_USERS = re.compile(r'^#include "([^"]+)"\n', re.M)
_TEMPLATE = re.compile(r"(?://[^\n]*\n)*template <[^\n]*>\n[^\n(]*?\b(\w+)\(")
_WORD = re.compile(r"\w+")
_TEXT = """// {title}
// {message}
//
// c++ -std=c++17 -O1 -ffp-contract=off -I {folder} {file} && ./a.out
{unit}
#include <cstdio>

int main() {{
{lines}
  std::printf("%s\\n", "{title}");
  std::printf("with Eigen %d.%d.%d\\n", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION,
              EIGEN_MINOR_VERSION);
  std::printf(std::isnan(computed) ? "computed: nan\\n" : "computed: %.17g\\n", computed);
  std::printf("true:     %s\\n", "{truth}");
  return {is_right} ? 0 : 1;
}}
"""
_CALL = """  const std::vector<{real}> inputs{values};
  std::vector<{real}> output({entries}), tangents({entries});
  {function}(inputs.data(), inputs.size(), {first}, 1, nullptr, 1, {entries}, {given});
{search}{computed}"""
_ONE = "  const double computed = {found}[{place}];"
_PRODUCT = """  const std::vector<double> y_bar{cotangent};
  double computed = 0;
  for (std::size_t i = 0; i < y_bar.size(); ++i) computed += y_bar[i] * tangents[i];"""
_SEARCH = """  std::size_t lost = 0;
  while (lost + 1 < output.size() && std::isfinite(output[lost])) ++lost;
"""
_SHAPE = """  gradcheck::Index shape[1 + gradcheck::dimensions], entries = 1, place = 0;
  const std::vector<{real}> at{values};
  gradcheck_layer(at.data(), at.size(), 0, 0, nullptr, 0, 0, nullptr, nullptr, shape);
  std::vector<gradcheck::Index> index{index};
  index.resize(shape[0]);
  for (gradcheck::Index i = 0; i < shape[0]; ++i) {{
    place = place * shape[1 + i] + index[i];
    entries *= shape[1 + i];
  }}
"""


def cpp_script(finding: Finding, spec: Spec, known: str, half: float) -> str:
    """The file for a finding with a number. `known` says how the true number is known, `half` is
    half of the distance between both numbers. Raises NoScript."""
    entry = finding.entries[0] if finding.entries else Entry(index=(), computed=None)
    point = spec.points[finding.point or 0]
    output, index = _places(finding)
    layers = [one for one in spec.implementations if one.engine == "eigen"]
    try:
        text, lines = (
            _of_layer(layers[0], finding, point, output, index)
            if layers
            else _of_formula(finding, spec, point, output, index)
        )
    except (EngineFault, NodeFault) as error:
        raise NoScript(f"it is not compiled: {error}") from error
    title = f"{finding.code} {CODES[finding.code].name}: eigen, {finding.dtype}"
    is_right = "std::isfinite(computed)"
    if entry.truth is not None and finding.code != Codes.NON_FINITE_OUTPUT:
        is_right = f"std::abs(computed - {_number(entry.truth)}) <= {_number(half)}"
    return _TEXT.format(
        title=title,
        message=" ".join(finding.message.split()),
        folder="EIGEN",
        file="repro.cpp",
        unit=_used(_with_headers(text)),
        lines=lines,
        truth="not known" if entry.truth is None else f"{entry.truth!r} {known}".strip(),
        is_right=is_right,
    ).replace("gradcheck", "repro")


def _places(finding: Finding) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """The index of the output, and the index of the input if the finding is about a derivative."""
    if not finding.entries:
        return (), None
    index = finding.entries[0].index
    if finding.input is None:
        return index, None
    how = finding.indexing
    if how is None or how.directions or bool(how.cotangents) > bool(finding.cotangents):
        raise NoScript("it is a product along random directions, or of more numbers than are kept")
    output = () if how.cotangents else index[: how.output_axes]
    return output, index[how.output_axes :]


def _cotangent(finding: Finding) -> tuple[float, ...]:
    """The cotangent of the product that is differentiated; empty for a single output."""
    how = finding.indexing
    if how is None or not how.cotangents:
        return ()
    return finding.cotangents[finding.entries[0].index[0] if how.output_axes else 0]


def _of_formula(
    finding: Finding,
    spec: Spec,
    point: Mapping[str, Input],
    output: tuple[int, ...],
    index: tuple[int, ...] | None,
) -> tuple[str, str]:
    """The translation unit, and the statements that compute the number."""
    dtype = finding.dtype or "float64"
    program = spec.program
    whole = {name: one.value for name, one in point.items() if one.value.dtype.kind in "bi"}
    made = write(rounded(program, dtype), whole, dtype)
    shape = program.result.shape
    kinds = ("std::int64_t", REALS[dtype], "unsigned char")
    pools = {"maps": made.maps, "constants": made.constants, "flags": made.flags}
    lines = [
        f"  const std::vector<{kind}> {name}{_listed(pool)};"
        for kind, (name, pool) in zip(kinds, pools.items(), strict=True)
    ]
    call = _call(
        f"gradcheck_{dtype}",
        dtype,
        [point[name].value for name in made.places],
        None if index is None else made.places[finding.input or ""],
        index,
        point.get(finding.input or ""),
        str(int(np.prod(shape, dtype=int))),
        _cotangent(finding) or (str(flat_of(output, shape)) if finding.entries else ""),
        "maps.data(), constants.data(), flags.data(), output.data(), tangents.data()",
    )
    return made.text, "\n".join((*lines, call))


def _of_layer(
    layer: Implementation,
    finding: Finding,
    point: Mapping[str, Input],
    output: tuple[int, ...],
    index: tuple[int, ...] | None,
) -> tuple[str, str]:
    """The translation unit, and the statements that compute the number."""
    dtype = finding.dtype or "float64"
    values = {name: one.value for name, one in point.items()}
    text, places = unit(layer, values, dtype)
    arrays = [values[name] for name in places]
    told = _SHAPE.format(
        real=REALS[dtype], values=_listed(_flat_numbers(arrays)), index=_listed(output)
    )
    call = _call(
        "gradcheck_layer",
        dtype,
        arrays,
        None if index is None else places[finding.input or ""],
        index,
        point.get(finding.input or ""),
        "entries",
        _cotangent(finding) or ("place" if finding.entries else ""),
        "output.data(), tangents.data(), shape",
    )
    return text, told + call


def _call(
    function: str,
    dtype: str,
    arrays: Sequence[Array],
    begins: int | None,
    index: tuple[int, ...] | None,
    moving: Input | None,
    entries: str,
    place: str | tuple[float, ...],
    given: str,
) -> str:
    """The value, or its derivative with respect to the entry `index` of the input at position
    `begins`: for the output at a `place`, or for the product of the output with these numbers.
    Without a place: the first number of the output that is not finite."""
    first = 0
    if begins is not None and index is not None and moving is not None:
        first = begins + flat_of(index, moving.value.shape)
    if isinstance(place, tuple):
        computed = _PRODUCT.format(cotangent=_listed(place))
    else:
        found = "output" if begins is None else "tangents"
        computed = _ONE.format(found=found, place=place or "lost")
    return _CALL.format(
        real=REALS[dtype],
        values=_listed(_flat_numbers(arrays)),
        entries=entries,
        function=function,
        first=first,
        given=given,
        computed=computed,
        search="" if place else _SEARCH,
    )


def _with_headers(text: str) -> str:
    """The translation unit with our headers and the user's inserted in place of their names."""
    included: set[str] = set()

    def own(line: re.Match[str]) -> str:
        if line[1] in included:
            return ""
        included.add(line[1])
        return _OWN.sub(own, (_HEADERS / line[1]).read_text("utf-8")).replace("#pragma once\n", "")

    def users(line: re.Match[str]) -> str:
        header = Path(line[1]).read_text("utf-8")
        is_alone = not _USERS.search(header)
        return header.replace("#pragma once\n", "") if is_alone else line[0]

    return _OWN.sub(own, _USERS.sub(lambda m: m[0] if _OWN.match(m[0]) else users(m), text))


def _used(text: str) -> str:
    """The text without function templates that nothing in it calls."""
    blocks = text.split("\n\n")
    while True:
        words = Counter(word for block in blocks for word in set(_WORD.findall(block)))
        kept = [
            one for one in blocks if (made := _TEMPLATE.match(one)) is None or words[made[1]] > 1
        ]
        if len(kept) == len(blocks):
            return "\n\n".join(blocks)
        blocks = kept


def _flat_numbers(arrays: Sequence[Array]) -> Array:
    return np.concatenate([np.zeros(0), *map(np.ravel, arrays)])


def _listed(numbers: Any) -> str:
    return f"{{{', '.join(_literals(numbers))}}}"


def _literals(numbers: Any) -> Iterator[str]:
    return (_number(one) for one in np.asarray(numbers).ravel().tolist())


def _number(value: float) -> str:
    """A number as a C++ literal."""
    return {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN"}.get(repr(value), repr(value))
