"""What every engine asks of a layer before a recorded run of it holds for all inputs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.layer import word_of
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.search import GradientProgram
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.execution import Execution
from gradcheck_cli.engines.layer.layer_subject import LayerSubject
from gradcheck_cli.engines.layer.lifting import NotLifted, lifted_outputs
from gradcheck_cli.engines.layer.subject import Call
from gradcheck_cli.engines.temporarily import temporarily
from gradcheck_cli.engines.tracebacks import raise_if_internal

OTHER_DTYPE = "the layer runs other operations in float64"
OTHER_INPUTS = "the layer runs other operations for other inputs"
_NEVER_FAIL = frozenset(("sum", "mean", "prod", "amax", "amin", "mm", "bmm", "matmul"))
"""Kernels, besides those that work element by element or move numbers, that raise no error for any
floating numbers."""
NEEDS_NUMBERS = "the layer cannot be run without numbers"


def program_or_reason(made: Callable[[], GradientProgram]) -> GradientProgram:
    """The program, or the reason why there is none: in place of any error, because a user's code
    may fail at other inputs or without numbers."""
    try:
        return made()
    except EngineFault as fault:
        return GradientProgram(reason=str(fault))
    except Exception as error:
        raise_if_internal(error)
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        return GradientProgram(reason=f"{NEEDS_NUMBERS}: {said}")


def refuse_unknown_kinds(subject: LayerSubject, searched: Sequence[str]) -> None:
    """Raise NotLifted for compiled layers, several outputs, complex numbers, and numbers that the
    layer holds, about which nothing is proven."""
    if subject.stages:
        raise NotLifted("kernels of a compiled layer are not known")
    if len(subject.outputs) != 1 or any(leaf.is_complex for leaf in subject.leaves):
        raise NotLifted("nothing is proven about layers with several outputs or complex numbers")
    if subject.outputs[0].dtype != subject.dtype:
        raise NotLifted(f"its output is {subject.outputs[0].dtype}")
    if not set(searched) <= {leaf.name for leaf in subject.leaves if leaf.role == "input"}:
        raise NotLifted("nothing is proven about numbers that the layer holds")


def refuse_effects(subject: LayerSubject) -> None:
    """Raise NotLifted if a call leaves effects or draws random numbers, because the next call may
    depend on them."""
    size = subject.outputs[0].size
    run = subject.run(Call(cotangents=np.eye(size), watch=True))
    if run.random:
        raise NotLifted("the layer draws random numbers")
    changed = (*run.changed, *run.changed_later, *run.accumulated)
    if changed or run.upstream_changed:
        raise NotLifted(f"the layer writes to `{changed[0] if changed else 'its cotangent'}`")


def refuse_other_numbers(wide: Sequence[Array], narrow: Sequence[Array], fmt: FloatFormat) -> None:
    """Raise NotLifted if constants differ between two runs by more than one rounding to the dtype,
    which literals undergo."""
    same = len(wide) == len(narrow)
    for there, here in zip(wide, narrow, strict=False):
        exact = np.array_equal(there, here, equal_nan=True)
        same &= exact or np.array_equal(fmt.round(there), here, equal_nan=True)
    if not same:
        raise NotLifted(
            "a number of its own differs between float64 and the dtype, or between two calls"
        )


def refuse_caught_errors(
    execution: Execution, forward: int, inputs: Iterable[int | None], value: int | None
) -> None:
    """Raise NotLifted if one of the first `forward` steps, which the layer itself ran, may raise an
    error for some inputs, and the value does not depend on it: the layer may catch the error and go
    on, so that a run that recorded none shows nothing."""
    needed = set(execution.needed(() if value is None else (value,)))
    moving = set(inputs)
    for place, step in enumerate(execution.steps[:forward]):
        taken = [slot for slot in step.args if slot in moving]
        if not taken:
            continue
        moving.update(step.results)
        numbers = [execution.values(slot).dtype.kind for slot in (*taken, *step.results)]
        whole = "i" in numbers or "u" in numbers
        kernel = step.name.lower().removeprefix("aten.").partition(".")[0]
        harmless = step.elementwise or step.moves or kernel in _NEVER_FAIL
        if place not in needed and (whole or not harmless):
            raise NotLifted(f"`{step.name}` may fail, and the value does not depend on it")


def program_of_run(
    execution: Execution,
    forward: int,
    leaves: Mapping[str, int | None],
    results: Sequence[int | None],
    span: Span,
) -> GradientProgram:
    """The program of a recorded run whose operations are the same for all inputs. `leaves` has the
    slots by name, `results` those of the value and then of each row of gradients, and the value
    took the first `forward` steps. Raises NotLifted."""
    inputs = {word_of(name): slot for name, slot in leaves.items() if slot is not None}
    refuse_caught_errors(execution, forward, inputs.values(), results[0])
    lifted = lifted_outputs(execution, inputs, results, span)
    return GradientProgram(lifted.program, lifted.constants)


@contextmanager
def in_one_thread(refuse: Callable[[str], None]) -> Iterator[None]:
    """Refuse layers that start threads inside the block: operations in threads are not seen."""
    start = threading.Thread.start

    def noted(thread: threading.Thread) -> None:
        refuse("nothing is proven about a layer that starts threads")
        start(thread)

    with temporarily(threading.Thread, start=noted):
        yield
