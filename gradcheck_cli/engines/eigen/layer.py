"""A user's function template over its scalar type: `implementations.eigen: layer.hpp:name`."""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.domain.place import Place, Source, Span
from gradcheck_cli.engines.eigen.compiling import compiled, longs, pointer, search_path, unload
from gradcheck_cli.engines.eigen.writing import REALS
from gradcheck_cli.engines.errors import EngineFault, Unsupported
from gradcheck_cli.engines.layer.layer_subject import LayerSubject
from gradcheck_cli.engines.layer.numpy_arrays import NumpyArrays
from gradcheck_cli.engines.layer.results import MissingOutput
from gradcheck_cli.engines.layer.subject import Call, CallResult, Layout, Output, SubjectRequest

if TYPE_CHECKING:
    from gradcheck_cli.engines.layer.casts import Cast
    from gradcheck_cli.engines.layer.custom import CustomCall
    from gradcheck_cli.engines.layer.recording import Recording

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_STATES = re.compile(r"\bAutoDiffScalar\b|\bderivatives\s*\(")
_INCLUDED = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.M)
_DIMENSIONS = 8  # of an output, at most (gradcheck_layer.hpp)
# Eigen's own checks throw, so that wrong sizes are reported instead of ending the process. What the
# user's code does not initialise is nan, and the derivatives of such a scalar are, too.
_TEXT = """// made of {digest}
#undef NDEBUG
#define EIGEN_INITIALIZE_MATRICES_BY_NAN
#include <stdexcept>
#define eigen_assert(condition) \\
  do {{ if (!(condition)) throw std::runtime_error("Eigen: " #condition); }} while (false)
#include <Eigen/Core>
#include <unsupported/Eigen/AutoDiff>
{tensors}#include "{header}"
#include "gradcheck_layer.hpp"

// Names that no function of a user has.
using gradcheck_scalar = gradcheck::Scalar<{real}>;
static std::string gradcheck_said;

GRADCHECK_EXPORT const char* gradcheck_problem() {{ return gradcheck_said.c_str(); }}

GRADCHECK_EXPORT int gradcheck_layer(
    const {real}* values, gradcheck::Index total, gradcheck::Index first, gradcheck::Index size,
    const {real}* directions, gradcheck::Index count, gradcheck::Index entries, {real}* output,
    {real}* tangents, gradcheck::Index* shape) {{
  using T = gradcheck_scalar;
  auto fits = [](auto&... a) -> decltype((void)::{name}(a...)) {{}};
  auto apply = [](auto&... a) {{ return gradcheck::result<T>(::{name}(a...)); }};
  auto call = [&](const std::vector<T>& inputs) {{
    return gradcheck::applied(fits, apply, inputs, {arguments});
  }};
  return gradcheck::call<{real}>(call, values, total, first, size, directions, count, entries,
                                 output, tangents, shape, gradcheck_said);
}}
"""


_ONCE = "it is compiled for first derivatives only"


class EigenSubject(LayerSubject):
    """A function template in one dtype, differentiated in forward mode only. Its arguments are
    copies, so there is nothing that it could write to except its static variables, which are its
    own: each subject loads the library anew."""

    def __init__(self, request: SubjectRequest) -> None:
        super().__init__(request)
        if request.complex_inputs:
            raise Unsupported("Eigen::AutoDiffScalar has no derivatives of complex numbers")
        self.fw = NumpyArrays(request.dtype, _ONCE, _ONCE)
        self.mode = "forward"
        self._values = dict(request.values)
        text, self._places = unit(request.implementation, request.values, request.dtype)
        self._files = _included(_header(request.implementation))
        found = compiled(text, self._files)
        self._library = found.load(anew=True)
        self._call: Any = self._library.gradcheck_layer
        self._problem = self._library.gradcheck_problem
        self._problem.restype = ctypes.c_char_p
        self.bind_leaves(
            Leaf(name, "input", value, name in self._places) for name, value in self._values.items()
        )
        shape = self._shape()
        self.outputs = (Output("y", shape, self.dtype, 0),)
        self._size = math.prod(shape)
        if not self._size and not request.empty:
            raise MissingOutput(f"the layer returned an array of shape {shape}, without entries")

    def _shape(self) -> tuple[int, ...]:
        told = np.zeros(1 + _DIMENSIONS, dtype=np.int64)
        self._run(self._packed_values({}), 0, 0, None, 0, None, None, told)
        return tuple(int(n) for n in told[1 : 1 + told[0]])

    def _packed_values(self, values: Values) -> Array:
        parts = [np.ravel(values.get(n, self._values[n])).astype(self.dtype) for n in self._places]
        return np.concatenate([np.zeros(0, self.dtype), *parts])

    def _run(
        self,
        given: Array,
        first: int,
        size: int,
        directions: Array | None,
        count: int,
        output: Array | None,
        tangents: Array | None,
        shape: Array | None,
    ) -> None:
        process = os.getpid()
        failed = self._call(
            pointer(given),
            *longs(given.size, first, size),
            pointer(directions),
            *longs(count, 0 if output is None else output.size),
            *map(pointer, (output, tangents, shape)),
        )
        if os.getpid() != process:  # a child that the layer forked: its parent has the answer
            os._exit(0)
        if failed:
            raise EngineFault(f"it threw: {self._problem().decode(errors='replace')}")

    def _differentiated(
        self, values: Values, name: str, directions: Array | None
    ) -> tuple[Array, Array]:
        """The output, and its derivatives of shape (directions, output), along directions of an
        input or along its entries."""
        size = self._values[name].size
        count = size if directions is None else len(directions)
        output = np.zeros(self._size, dtype=self.dtype)
        tangents = np.zeros((count, self._size), dtype=self.dtype)
        place = self._places[name]
        self._run(
            self._packed_values(values), place, size, directions, count, output, tangents, None
        )
        return output, tangents

    def ready(self, values: Values) -> AbstractContextManager[Any]:
        return nullcontext()

    def inputs(
        self, values: Values, wrt: Sequence[str] = (), layout: Layout = "contiguous"
    ) -> dict[str, Any]:
        return {**self._values, **values}

    def call(self, inputs: Mapping[str, Any]) -> list[Any]:
        output = np.zeros(self._size, dtype=self.dtype)
        self._run(self._packed_values(inputs), 0, 0, None, 0, output, output, None)
        return [output]

    def run(self, call: Call) -> CallResult:
        """The Jacobian's rows by forward mode, the only mode."""
        output = self.value(call.values)
        if call.cotangents is None or not call.tracking:
            return CallResult(output)
        gradients: dict[str, Array | None] = {}
        for name in self.wrt if call.wrt is None else call.wrt:
            if call.used_outputs is not None and "y" not in call.used_outputs:
                gradients[name] = None
                continue
            _, tangents = self._differentiated(call.values, name, None)
            with np.errstate(all="ignore"):
                gradients[name] = call.cotangents @ tangents.T.astype(np.float64)
        return CallResult(output, gradients, dict.fromkeys(gradients, self.dtype))

    def jvp(self, tangents: Values) -> Array:
        moved = np.zeros(self._size)
        for name, direction in tangents.items():
            row = np.ravel(direction)[None].astype(self.dtype)
            moved = moved + self._differentiated({}, name, row)[1][0].astype(np.float64)
        return moved

    def cotangent(self, part: Array, output: Output, layout: Layout) -> Any:
        return part.astype(output.dtype)

    def close(self) -> None:
        super().close()
        self._call = None
        unload(self._library)

    def record(self, row: Array) -> Recording:
        raise Unsupported("operations of C++ are not recorded")

    def casts(self) -> Sequence[Cast]:
        """Return no casts: only the noise of results shows how C++ computes."""
        return ()

    def functions(self, row: Array | None = None) -> Sequence[CustomCall]:
        """The layer itself, if it states its derivatives."""
        from gradcheck_cli.engines.layer.custom import CustomCall

        name = self.request.implementation.target.rpartition(":")[2]
        place, wrt = _stating(name, self._files), tuple(self._places)
        if place is None:
            return ()
        return (CustomCall(name, None, {}, wrt, frozenset(wrt), {}, place=place),)


def _stating(name: str, files: Mapping[Path, str]) -> Place | None:
    """The name of a function at a definition that states derivatives: it mentions `AutoDiffScalar`
    or `derivatives()`. None if there is none in these files."""
    from gradcheck_cli.engines.layer.source_lines import displayed_path

    for path, text in files.items():
        code = _COMMENT.sub(lambda found: re.sub(r".", " ", found[0]), text)
        for found in re.finditer(rf"\b{re.escape(name)}\b\s*\([^;{{}}]*\{{", code):
            before = re.split(r"[;{}#]", code[: found.start()])[-1]
            whole = before + code[found.start() : _closing(code, found.end())]
            if before.count("(") == before.count(")") and _STATES.search(whole):
                line = code.count("\n", 0, found.start()) + 1
                column = found.start() - code.rfind("\n", 0, found.start())
                span = Span(line, column, line, column + len(name))
                return Place(Source(displayed_path(str(path)), text), span, name)
    return None


def _closing(code: str, start: int) -> int:
    """The place after the brace that closes the one before `start`."""
    depth = 1
    for brace in re.compile(r"[{}]").finditer(code, start):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return brace.end()
    return len(code)


def _header(implementation: Implementation) -> Path:
    return Path(implementation.file).resolve()


def _included(header: Path) -> dict[Path, str]:
    """The header and all headers that it includes by name, from its own folder or from the
    compiler's search path."""
    texts: dict[Path, str] = {}
    waiting = [header]
    while waiting:
        file = waiting.pop()
        if file in texts or not file.is_file():
            continue
        texts[file] = file.read_text("utf-8", "replace")
        folders = [file.parent, *map(Path, search_path())]
        names = _INCLUDED.findall(texts[file])
        waiting += [Path(folder, name).resolve() for name in names for folder in folders]
    return texts


def unit(
    implementation: Implementation, values: Mapping[str, Array], dtype: str
) -> tuple[str, dict[str, int]]:
    """The translation unit that calls the function, and the start of each input among all floating
    numbers. Raises EngineFault."""
    file, _, name = implementation.target.partition(":")
    if not name:
        raise EngineFault(f"{file} is a header: name the function template, {file}:name")
    places: dict[str, int] = {}
    total = 0
    for input, value in values.items():
        if value.dtype.kind == "f":
            places[input] = total
            total += value.size
    arguments = [_argument(n, value, places) for n, value in values.items()]
    arguments += [_fixed(value) for value in implementation.args]
    if implementation.kwargs:
        raise EngineFault("a C++ function has no keyword arguments: write them under `args`")
    deep = any(value.ndim > 2 for value in values.values())
    header = _header(implementation)
    text = _TEXT.format(
        digest=_digest(_included(header)),
        tensors="#include <unsupported/Eigen/CXX11/Tensor>\n" if deep else "",
        header=header,
        real=REALS[dtype],
        name=name,
        arguments=", ".join(arguments),
    )
    return text, places


def _argument(name: str, value: Array, places: Mapping[str, int]) -> str:
    if name not in places:
        return _integer_array(name, value) if value.ndim else _fixed(value.item())
    sizes = ", ".join(map(str, value.shape))
    kind = ("Number", f"Vector<{sizes}>", f"Grid<{sizes}>", f"Cube<{sizes}>")[min(value.ndim, 3)]
    return f"gradcheck::{kind}{{{places[name]}}}"


def _integer_array(name: str, value: Array) -> str:
    """Integers or booleans as one of Eigen's integer arrays."""
    if value.ndim > 2:
        words = "integers and booleans must be numbers, vectors or matrices"
        raise Unsupported(f"`{name}` has {value.ndim} dimensions: {words}")
    rows, columns = value.shape if value.ndim == 2 else (value.size, 1)
    entries = ", ".join(str(int(one)) for one in value.T.ravel())
    kind = "Eigen::MatrixXi" if value.ndim == 2 else "Eigen::VectorXi"
    shape = f"{rows}, {columns}" if value.ndim == 2 else f"{rows}"
    return f"gradcheck::whole<{kind}>({{{entries}}}, {shape})"


def _fixed(value: Any) -> str:
    if isinstance(value, bool):
        return f"gradcheck::Fixed{{{'true' if value else 'false'}}}"
    if isinstance(value, int):
        return f"gradcheck::Fixed{{{value}}}"
    if isinstance(value, float) and math.isfinite(value):
        return f"gradcheck::Fixed{{{value.hex()}}}"
    raise EngineFault(
        f"{value!r} cannot be passed to a C++ function: only numbers and booleans can"
    )


def _digest(files: Mapping[Path, str]) -> str:
    told = (f"{file}\0{text}\0" for file, text in files.items())
    return hashlib.sha256("".join(told).encode()).hexdigest()
