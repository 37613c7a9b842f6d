"""Operations that pass a value on."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering

ROWS: dict[str, Lowering] = {"stop_gradient": "lax.stop_gradient"}
