"""Replacements in JAX: where compiled code is kept, contexts of MLIR, and calls in traces."""

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

# The share of a run's processor time that each saves, by benchmarks/replacements.py.
CONTEXTS = "jax-contexts"  # 15 % of one formula, 17 % of 30
EQUATIONS = "jax-equations"  # 14 % of a training path of 100 steps


def keep_compiled(jax: Any) -> None:
    """Keep compiled code on disk for the next run. XLA takes about 50 milliseconds to compile an
    operation for a shape, and a tenth of that to load it. A folder in JAX_COMPILATION_CACHE_DIR is
    respected, and JAX_ENABLE_COMPILATION_CACHE=0 turns the cache off."""
    if jax.config.jax_compilation_cache_dir is None:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        # code compiled for one processor does not run on all others
        folder = Path(home) / "gradcheck" / f"jax-{jax.__version__}-{platform.node()}"
        jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


# A context keeps every constant of its modules, including a layer's own arrays.
_MODULES_A_CONTEXT = 100


class _Kept(threading.local):
    """A thread's own context, and how many more modules it may hold."""

    context: Any = None
    left: int = 0


@cache
def share_contexts() -> None:
    """Reuse contexts of MLIR. JAX makes a context with all dialects for every function that it
    compiles, which takes a third of the time until one operation has run, although the contexts
    do not differ. A function that is compiled while another one is being lowered gets a new
    context."""
    if not replaces(CONTEXTS):
        return
    from jax._src.interpreters import mlir

    if not hasattr(mlir, "make_ir_context"):  # only slower in a version without it
        return
    make, kept = mlir.make_ir_context, _Kept()

    def shared() -> Any:
        if mlir.ir.Context.current is not None:  # a nested module would join the outer one
            return make()
        if kept.left == 0:
            kept.context, kept.left = make(), _MODULES_A_CONTEXT
        kept.left -= 1
        return kept.context

    mlir.make_ir_context = shared


@contextmanager
def whole_calls() -> Iterator[list[Any]]:
    """Keep compiled calls whole in traces. Much of `jax.numpy` is compiled as one function when
    called outside `jax.jit`, and expanded inside it. XLA rounds the parts differently (a division
    by a constant becomes a product), so calls stay whole in the traces that are in the list."""
    # imported here: a version of JAX without these names is only slower
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
