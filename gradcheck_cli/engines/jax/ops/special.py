"""The error function, the normal distribution, log-odds and entropy."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering

ROWS: dict[str, Lowering] = {
    "entr": "scipy.special.entr",
    "erf": "scipy.special.erf",
    "erfc": "scipy.special.erfc",
    "erfcx": "scipy.special.erfcx",
    "erfinv": "scipy.special.erfinv",
    "log_ndtr": "scipy.special.log_ndtr",
    "logit": "scipy.special.logit",
    "ndtr": "scipy.special.ndtr",
    "ndtri": "scipy.special.ndtri",
}
