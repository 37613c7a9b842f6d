"""What is changed in JAX before it computes: where compiled code is kept, and contexts of MLIR."""

from __future__ import annotations

import os
import platform
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass


def keep_compiled(jax: Any) -> None:
    """What was compiled once is found again by the next run: every operation takes XLA about 50
    milliseconds for every shape, and a tenth of that to read. Whoever has named a folder for that
    by JAX_COMPILATION_CACHE_DIR keeps it; JAX_ENABLE_COMPILATION_CACHE=0 turns it off."""
    if jax.config.jax_compilation_cache_dir is None:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        # what was compiled for one processor does not run on every other
        folder = Path(home) / "gradcheck" / f"jax-{jax.__version__}-{platform.node()}"
        jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


# A context keeps every constant of its modules: a layer's own arrays are among them.
_MODULES_A_CONTEXT = 100


class _Kept(threading.local):
    """A thread's own context, and for how many more modules it is good."""

    context: Any = None
    left: int = 0


@cache
def share_contexts() -> None:
    """JAX makes a context of MLIR for every function that it compiles, with all its dialects: that
    takes a third of the time until one operation has run, for nothing that differs. What is
    compiled while something else is being lowered gets a context of its own."""
    from jax._src.interpreters import mlir

    if not hasattr(mlir, "make_ir_context"):  # not there in this version: it is only slower
        return
    make, kept = mlir.make_ir_context, _Kept()

    def shared() -> Any:
        if mlir.ir.Context.current is not None:  # a module amid another one would become its part
            return make()
        if kept.left == 0:
            kept.context, kept.left = make(), _MODULES_A_CONTEXT
        kept.left -= 1
        return kept.context

    mlir.make_ir_context = shared
