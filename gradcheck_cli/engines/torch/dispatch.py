"""Modes that see every operation which PyTorch runs below autograd."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch._C import DispatchKey
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

WATCHER = __name__  # of the user's code, for `source_lines.Places`


class OperationMode(TorchDispatchMode):  # type: ignore[misc]
    """Sees every operation, also those inside the functions that `torch.cond`, a scan or a loop
    takes. A subclass runs each in `operation`."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: nothing is compiled here, and keeping the compiler away would first import
        it, which takes two seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not isinstance(func, HigherOrderOperator):
            return self.operation(func, args, kwargs or {})
        plain = func.py_kernels.get(DispatchKey.CompositeExplicitAutograd)
        if plain is None:
            raise NotImplementedError(f"PyTorch runs `{func.name()}` only if it is compiled")
        inside = [self._seeing(x) if callable(x) else x for x in args]
        return plain(*inside, **(kwargs or {}))

    def _seeing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that PyTorch calls outside of all modes, inside this one."""

        def called(*args: Any) -> Any:
            with self:
                return function(*args)

        return called

    def operation(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Run the operation, and return its result."""
        raise NotImplementedError
