"""JAX: `jax.vjp` for reverse mode and `jax.jvp` for forward mode, with or without compilation."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from gradcheck_cli.domain.evaluation import Mode, modes_in
from gradcheck_cli.domain.placement import HOST
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.base import Capabilities
from gradcheck_cli.engines.jax.device_setup import placed
from gradcheck_cli.engines.jax.framework import CompiledJax, Jax
from gradcheck_cli.engines.jax.ops import TABLE
from gradcheck_cli.engines.jax.stages import SIMPLIFIER, STAGES
from gradcheck_cli.engines.jax.startup import keep_compiled, share_contexts
from gradcheck_cli.engines.kit.adapter import LoweredEngine
from gradcheck_cli.engines.kit.patience import NO_COMPILER
from gradcheck_cli.engines.kit.walker import custom_gradients

if TYPE_CHECKING:
    from gradcheck_cli.engines.layer.subject import Subject, SubjectRequest


class JaxEngine(LoweredEngine):
    """JAX on the CPU or on a GPU. Operations run one after the other, as outside `jax.jit`."""

    capabilities = Capabilities(
        name="jax",
        distributions=("jax",),
        install="pip install 'gradcheck-cli[jax]'",
        layers=True,
        orders=(1, 2, 3),
        devices=("cpu", "cuda"),
        kernels="gradcheck_cli.engines.jax.kernels",
    )
    table = TABLE
    placed = staticmethod(placed)
    lacking = (
        "Unsupported dtype",
        "unsupported dtype",
        "must have dtype",
        "dtype=float16 is not supported",
        "dtype=bfloat16 is not supported",
    )

    def load(self) -> str:
        # Searching for other devices takes time, and JAX computes on the first one.
        kind = self.placement.kind
        os.environ["JAX_PLATFORMS"] = kind if kind == "cpu" else f"{kind},cpu"
        import jax

        # Otherwise JAX silently converts float64 to float32. This process is the worker's.
        jax.config.update("jax_enable_x64", True)
        keep_compiled(jax)
        share_contexts()
        return self._loaded(jax)

    def framework(self, dtype: str) -> Jax:
        return Jax(self._calls, dtype)

    def subject(self, request: SubjectRequest) -> Subject:
        from gradcheck_cli.engines.jax.layer import JaxSubject
        from gradcheck_cli.engines.layer.reused_subjects import take

        left = take(JaxSubject, request) if self.placement == HOST else None
        return left or JaxSubject(request, compiled=False)

    def refuses(self, program: Program, mode: Mode) -> str | None:
        """Why forward mode is impossible, or None. JAX raises for forward mode through a
        `jax.custom_vjp`, but not through its derivative."""
        if modes_in(mode)[-1] != "forward":  # the inner one
            return None
        for custom in custom_gradients(program):
            if custom.jvp is None:
                return f"JAX's forward mode needs a jvp for the custom gradient of `{custom.name}`"
        return None


class JaxJitEngine(JaxEngine):
    """JAX with every derivative compiled as a whole by `jax.jit`."""

    capabilities = replace(
        JaxEngine.capabilities,
        name="jax-jit",
        by_default=False,
        kernels="",
        stages=(*STAGES, SIMPLIFIER),
    )

    def subject(self, request: SubjectRequest) -> Subject:
        from gradcheck_cli.engines.jax.layer import JaxSubject

        return JaxSubject(request, compiled=True)

    def framework(self, dtype: str) -> Jax:
        if self.stage == NO_COMPILER:
            return super().framework(dtype)
        return CompiledJax(self._calls, dtype, STAGES.get(self.stage))
