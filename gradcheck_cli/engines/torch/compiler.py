"""PyTorch's compiler for formulas: a program and its derivative in a form that `torch.compile`
accepts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import count
from types import FunctionType
from typing import Any

from gradcheck_cli.domain.placement import HOST
from gradcheck_cli.engines.derivatives import (
    Arrays,
    Closure,
    Function,
    Movable,
    Moved,
    TapeVJP,
    Targets,
    VJPFunction,
)
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.kit.lowerings import Missing
from gradcheck_cli.engines.kit.lru import Recent
from gradcheck_cli.engines.kit.walker import Call
from gradcheck_cli.engines.torch.compiled import (
    MOST_COMPILED,
    clock_stands_still,
    compile_as_often_as_asked,
    dispatch_restored,
)
from gradcheck_cli.engines.torch.transforms import Transforms, unmarked
from gradcheck_cli.engines.tracebacks import one_line

REFUSED = "torch.compile does not support this derivative"
_RAISED = re.compile(r"got (\w+)\([\"'](.+?)(?:\. |\\n|[\"']\)|$)", re.MULTILINE)
_ASSERTED = re.compile(r"INTERNAL ASSERT FAILED at \W*\S*?(\w+\.\w+)\W+(\d+)")


def set_up() -> None:
    """Set the compiler up in a worker process. Compiled code keeps what a second backward pass
    reads, and a function may be compiled as often as needed. Compilation starts no processes, which
    cost more than small functions do. Random numbers are PyTorch's, and the time limit of a spec
    stops while the compiler works."""
    from torch._inductor import config as inductor

    compile_as_often_as_asked()
    inductor.compile_threads = 1
    inductor.fallback_random = True
    clock_stands_still()


_NUMBERS = count()


def as_one_graph(torch: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function under `torch.compile`, without graph breaks."""
    clock_stands_still()  # a user's code may have reset the compiler

    def whole(*args: Any) -> Any:
        return function(*args)

    # Dynamo caches and counts compilations by Python code object, and remembers which sizes have
    # changed by file, line and name: without a new name it would compile the next formula for any
    # size.
    code = whole.__code__.replace(co_name=f"whole_{next(_NUMBERS)}")
    own = FunctionType(code, whole.__globals__, closure=whole.__closure__)
    compiled = torch.compile(own, fullgraph=True)

    def called(*args: Any) -> Any:
        with dispatch_restored():
            return compiled(*args)

    return called


_DERIVATIVES = Recent[tuple[Any, ...], Callable[..., Any]](MOST_COMPILED)  # of layers


def compiled_derivative(
    torch: Any, key: tuple[Any, ...], function: Callable[..., Any]
) -> Callable[..., Any]:
    """Compile a function of a layer's inputs and more arrays, in which `Transforms` differentiate,
    as one graph. Functions with the same `key` are compiled once, if Dynamo considers them equal.
    The result raises Unsupported if the compiler does not support it."""

    def inside(function: Callable[..., Any], *args: Any) -> Any:
        if not torch.compiler.is_compiling():
            raise Unsupported(f"{REFUSED}: it ran uncompiled")
        return function(*args)

    compiled = _DERIVATIVES.get(key, partial(as_one_graph, torch, inside))

    def called(inputs: Mapping[str, Any], *rest: Any) -> Any:
        with torch.no_grad(), refusals():  # derivatives are taken only inside
            return compiled(function, dict(inputs), *rest)

    return called


@contextmanager
def refusals() -> Iterator[None]:
    """Turn the compiler's errors about an unsupported derivative into Unsupported."""
    from torch._dynamo.exc import FailOnRecompileLimitHit, TorchDynamoException

    try:
        yield
    except (TorchDynamoException, FailOnRecompileLimitHit) as error:
        raise Unsupported(f"{REFUSED}: {reason_of(error)}") from error


def reason_of(error: Exception) -> str:
    """Why the compiler failed, in a line: the exception of the operation that it ran."""
    asserted, raised = _ASSERTED.search(str(error)), _RAISED.search(str(error))
    if asserted:
        place = f"{asserted[1]}:{asserted[2]}"
        return f"PyTorch fails one of its own assertions while it traces ({place})"
    return f"{raised[1]}: {raised[2]}" if raised else one_line(error)


class CompiledTorch(Transforms):
    """PyTorch, compiled once for every program and shape. Reverse mode differentiates the compiled
    code, as a training step does, with the backward pass of AOTAutograd. Forward mode and nested
    derivatives are `torch.func` transforms inside the compiled region. Traced programs run
    uncompiled, because operations of compiled code cannot be seen."""

    compiles = True

    def __init__(
        self, table: Mapping[str, Call | Missing], dtype: str, device: str = HOST.device
    ) -> None:
        super().__init__(table, dtype, device)
        self._compiled = Recent[tuple[str, Any], Callable[..., Any]](MOST_COMPILED)

    def vjp(self, function: Function, sources: Sequence[Any]) -> tuple[list[Any], Any, VJPFunction]:
        if self.is_inside or not isinstance(function, Closure) or _is_traced(function):
            return super().vjp(function, sources)
        targets, rest = self._of("values", function.code, _values)(function.arrays, list(sources))
        with self.tape(sources) as (tape, watched):
            return targets, rest, TapeVJP(tape, targets, watched, {})

    def jvp(self, function: Movable, primals: Arrays, tangents: Arrays) -> Moved:
        if self.is_inside or not isinstance(function, Closure) or _is_traced(function):
            return super().jvp(function, primals, tangents)
        plain = {name: array.detach() for name, array in function.arrays.items()}
        pushed = self._of("tangents", function.code, self._tangents)
        results: tuple[list[Any], list[Any], Any]
        with refusals():
            results = pushed(plain, [primal.detach() for primal in primals], list(tangents))
        return results

    def nested(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def _of(self, what: str, code: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        """Compile the function, with `code` as its first argument."""
        made = partial(as_one_graph, self._torch, partial(function, code))
        return self._compiled.get((what, code), made)

    def _tangents(
        self, code: Any, arrays: dict[str, Any], primals: list[Any], tangents: list[Any]
    ) -> tuple[list[Any], list[Any], Any]:
        return self.pushed(Closure(code, arrays), primals, tangents)


def _values(code: Any, arrays: dict[str, Any], sources: list[Any]) -> Targets:
    return code(arrays, sources, unmarked)


def _is_traced(function: Closure) -> bool:
    """Whether the value of every operation is wanted together with the targets."""
    return bool(getattr(function.code, "traced", False))
