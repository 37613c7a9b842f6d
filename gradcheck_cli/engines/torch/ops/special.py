"""The error function, the normal distribution, log-odds and entropy."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering

ROWS: dict[str, Lowering] = {
    "entr": "special.entr",
    "erf": "erf",
    "erfc": "erfc",
    "erfcx": "special.erfcx",
    "erfinv": "erfinv",
    "log_ndtr": "special.log_ndtr",
    "logit": "logit",
    "ndtr": "special.ndtr",
    "ndtri": "special.ndtri",
}
