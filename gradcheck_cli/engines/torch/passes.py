"""Backward passes of layers of PyTorch, and the gradients that come of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.errors import WrongKind
from gradcheck_cli.engines.layer.subject import Call, CallResult
from gradcheck_cli.engines.torch.memory import Watch

if TYPE_CHECKING:
    from gradcheck_cli.engines.torch.layer import TorchSubject

Named = list[tuple[str, Any]]
Anew = Callable[[], tuple[Named, Sequence[Any]]]
"""Runs the layer forward once more: its outputs, and the leaves that they hang on."""


class Way:
    """How a layer can be differentiated, found out when it refuses: `once`, one backward pass a
    forward run (it frees what it kept); `accumulating`, by `.backward()` alone (what it calls
    cannot be asked for the gradients of some tensors)."""

    once = False
    accumulating = False

    def learns(self, error: Exception, first: bool, call: Call) -> bool:
        """Whether a pass that raised is worth another try in another way."""
        if not self.accumulating and ".backward()" in str(error):
            self.accumulating = True
            return True
        if not self.once and not first and not call.retained:
            self.once = True
            return True
        return False


def passes_of(
    subject: TorchSubject,
    call: Call,
    rows: Array,
    arrays: Named,
    sources: Sequence[Any],
    anew: Anew,
) -> tuple[list[list[Any]], bool]:
    """A gradient a source for each row, and whether a pass wrote to its cotangents."""
    way, found, spoilt = subject.way, [], False
    for i, row in enumerate(rows):
        again = i + 1 < len(rows) and not way.once
        if i and way.once:
            arrays, sources = anew()
        try:
            grads, wrote = _passed(subject, call, row, arrays, sources, again)
        except WrongKind:
            raise
        except Exception as error:  # a backward that finds nothing kept for it may raise anything
            if not way.learns(error, i == 0, call):
                raise
            arrays, sources = anew()
            again = again and not way.once
            grads, wrote = _passed(subject, call, row, arrays, sources, again)
        found.append(grads)
        spoilt |= wrote
    return found, spoilt


def _passed(
    subject: TorchSubject,
    call: Call,
    row: Array,
    arrays: Named,
    sources: Sequence[Any],
    again: bool,
) -> tuple[list[Any], bool]:
    outputs, cotangents = subject.cotangents(arrays, row, call)
    marked = {str(place): tensor for place, tensor in enumerate(cotangents)}
    given = Watch(subject.torch, marked) if call.watch else None
    grads = pulled(subject, outputs, cotangents, sources, again)
    return grads, bool(given and given.written())


def pulled(
    subject: TorchSubject,
    outputs: Sequence[Any],
    cotangents: Sequence[Any],
    sources: Sequence[Any],
    again: bool,
    differentiable: bool = False,
) -> list[Any]:
    """One backward pass: a gradient a source, None where there is none. `again`: the graph is kept
    for another one; `differentiable`: the backward itself is recorded."""
    wanted = [i for i, source in enumerate(sources) if source.requires_grad]
    result: list[Any] = [None] * len(sources)
    if not outputs or not wanted:
        return result
    leaves = [sources[i] for i in wanted]
    how = {"retain_graph": again or differentiable, "create_graph": differentiable}
    take = _accumulated if subject.way.accumulating else _requested
    try:
        grads = take(subject.torch, outputs, leaves, cotangents, how)
    except RuntimeError as error:
        if "returned an invalid gradient at index" in str(error):
            raise WrongKind(str(error).strip().splitlines()[0]) from error
        raise
    for i, grad in zip(wanted, grads, strict=True):
        result[i] = grad
    return result


def _requested(
    torch: Any,
    outputs: Sequence[Any],
    leaves: Sequence[Any],
    cotangents: Sequence[Any],
    how: Mapping[str, bool],
) -> Sequence[Any]:
    grads: Sequence[Any] = torch.autograd.grad(
        outputs, leaves, cotangents, allow_unused=True, **how
    )
    return grads


def _accumulated(
    torch: Any,
    outputs: Sequence[Any],
    leaves: Sequence[Any],
    cotangents: Sequence[Any],
    how: Mapping[str, bool],
) -> Sequence[Any]:
    """What `.backward()` leaves in the leaves, which hold nothing before and after."""
    torch.autograd.backward(outputs, cotangents, **how)
    grads = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    return grads


def gathered(
    subject: TorchSubject,
    output: Array,
    wrt: Sequence[str],
    sources: Sequence[Any],
    passes: Sequence[list[Any]],
) -> CallResult:
    """The gradients of all passes, by leaf."""
    gradients: dict[str, Array | None] = {}
    dtypes: dict[str, str] = {}
    for place, (name, source) in enumerate(zip(wrt, sources, strict=True)):
        parts = [grads[place] for grads in passes]
        known = [part for part in parts if part is not None]
        gradients[name] = _stacked(subject, parts, source) if known else None
        if known:
            dtypes[name] = str(known[0].dtype).removeprefix("torch.")
    return CallResult(output, gradients, dtypes)


def _stacked(subject: TorchSubject, parts: Sequence[Any], source: Any) -> Array:
    torch = subject.torch
    if len(parts) == 1:  # without a copy: it may be as large as the layer
        return subject.numpy(parts[0]).reshape(1, source.numel())
    whole = [torch.zeros_like(source) if part is None else part for part in parts]
    return subject.numpy(torch.stack(whole)).reshape(len(parts), source.numel())
