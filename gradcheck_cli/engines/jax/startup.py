"""What is changed in JAX: where compiled code is kept, contexts of MLIR, and calls in traces."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from gradcheck_cli.engines.kit.startup import replaces

# The part of a run's processor time that each saves, by benchmarks/replacements.py.
CONTEXTS = "jax-contexts"  # 15 % of one formula, 17 % of 30
EQUATIONS = "jax-equations"  # 14 % of a training path of 100 steps


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
    if not replaces(CONTEXTS):
        return
    from jax._src.interpreters import mlir

    if not hasattr(mlir, "make_ir_context"):  # this version lacks it: it is only slower
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


@contextmanager
def whole_calls() -> Iterator[list[Any]]:
    """Much of `jax.numpy` is compiled by itself, as one, when it is called outside of `jax.jit`,
    and taken apart inside of it. XLA makes other numbers of the parts (a division by a constant
    becomes a product), so these calls stay whole in the traces of the list."""
    # imported here: where another version of JAX has no such names, it is only slower
    from jax._src.interpreters import partial_eval
    from jax.extend.core.primitives import jit_p

    outermost: list[Any] = []
    rule = partial_eval.custom_staging_rules[jit_p]

    def staged(trace: Any, source_info: Any, *args: Any, **params: Any) -> Any:
        if trace in outermost:
            return trace.default_process_primitive(jit_p, args, params, source_info=source_info)
        return rule(trace, source_info, *args, **params)

    partial_eval.custom_staging_rules[jit_p] = staged
    try:
        yield outermost
    finally:
        partial_eval.custom_staging_rules[jit_p] = rule
