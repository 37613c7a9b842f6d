"""Modes that see every operation which PyTorch runs below autograd."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from torch._C import DispatchKey
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

from gradcheck_cli.engines.temporarily import temporarily

WATCHER = __name__  # of the user's code, for `source_lines.Places`


class OperationMode(TorchDispatchMode):  # type: ignore[misc]
    """Sees every operation. A subclass runs each in `operation`. Operations that take functions, as
    `torch.cond` does, run outside of it, or as code: see
    `functions_as_code`."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: nothing is compiled here, and keeping the compiler away would first import
        it, which takes two seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.operation(func, args, kwargs or {})

    def operation(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Run the operation, and return its result."""
        raise NotImplementedError


_MODE = "_get_current_dispatch_mode"
"""The function by which some operations that take functions refuse to run inside a mode."""


def functions_as_code() -> AbstractContextManager[None]:
    """Inside the block, run `torch.cond`, scans, loops and their like as the Python code that they
    stand for. So autograd and all modes see what happens inside; PyTorch compiles it out of their
    sight."""
    compiled = HigherOrderOperator.__call__

    def call(operator: Any, /, *args: Any, **kwargs: Any) -> Any:
        code = operator.py_kernels.get(DispatchKey.CompositeExplicitAutograd)
        if code is None:
            return compiled(operator, *args, **kwargs)
        scope = getattr(code, "func", code).__globals__
        unseen = {_MODE: lambda: None} if _MODE in scope else {}
        with temporarily(sys.modules[scope["__name__"]], **unseen):
            return code(*args, **kwargs)

    return temporarily(HigherOrderOperator, __call__=call)
