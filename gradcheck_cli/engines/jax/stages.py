"""The stages of XLA under `jax.jit`."""

from __future__ import annotations

from gradcheck_cli.engines.kit.patience import NO_COMPILER

SIMPLIFIER = "the algebraic simplifier"

STAGES: dict[str, dict[str, bool | str] | None] = {
    NO_COMPILER: None,
    "XLA without its passes": {"xla_disable_all_hlo_passes": True},
    "XLA without its algebraic simplifier": {"xla_disable_hlo_passes": "algsimp"},
}
"""Those before the simplifier, by name, with `compiler_options` of `jax.jit` that stop there."""

UNOPTIMISED: dict[str, bool | str] = {
    "xla_backend_optimization_level": "0",
    "xla_cpu_use_fusion_emitters": False,
}
"""The options of `compiler_options` with which XLA lowers every operation in its simpler way, and
LLVM does not optimise the result. This takes about a quarter of the time, which is enough for
numbers that are computed once and not judged: those of a second look in a higher precision."""

JIT_DISABLED = "not compiled, because jax_disable_jit is switched on"
RETRACED = "jax.jit compiles the layer again for each value of `{}`, which is static"
