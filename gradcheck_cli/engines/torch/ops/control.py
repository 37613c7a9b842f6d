"""Operations that pass a value on."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def stop_gradient(torch: Any, x: Any) -> Any:
    return x.detach()


ROWS: dict[str, Lowering] = {"stop_gradient": stop_gradient}
