"""The findings of a run that are failures of each kind."""

from __future__ import annotations

from collections.abc import Mapping

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.search import Kind

CODES_OF: Mapping[Kind, tuple[str, ...]] = {
    "undefined": (Codes.UNDEFINED_DERIVATIVE, Codes.DISCONTINUITY, Codes.NON_FINITE_OUTPUT),
    "value-nonfinite": (Codes.NON_FINITE_OUTPUT,),
    "gradient-nonfinite": (Codes.NAN_GRADIENT, Codes.INFINITE_GRADIENT),
    "gradient-underflow-to-zero": (Codes.UNDERFLOW_TO_ZERO,),
    "gradient-inaccurate": (Codes.PRECISION_LOSS, Codes.WRONG_GRADIENT),
    "value-inaccurate": (Codes.UNSTABLE_OUTPUT,),
}

KIND_OF: Mapping[str, Kind] = {code: kind for kind, codes in CODES_OF.items() for code in codes}
"""The kind of a finding; a value that is not finite is that, though it may be undefined, too."""
