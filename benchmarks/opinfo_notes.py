"""Why gradcheck complains about an operation of PyTorch that torch.autograd.gradcheck passes, or
passes one that it fails: read, and tried, op by op."""

from __future__ import annotations

_NARROW = (
    "its result is narrower than float64, in which torch's steps of 1e-6 drown; here it is judged "
    "by the digits of its dtype"
)

NOTES: dict[str, str] = {
    **dict.fromkeys(("float", "cfloat", "half", "chalf", "bfloat16"), _NARROW),
    "cov": "torch steps by 1e-6 in the float32 weights of this sample; here they are float64",
    "native_group_norm": (
        "torch asks for the gradient through the mean alone, which comes out as zero; here every "
        "output has a cotangent in each pass, and a missing one is a matter of behaviour (GC608)"
    ),
    "narrow_copy": "a sample takes no entries at all (GC109): there is nothing to compare",
    "nn.functional.hardsigmoid": (
        "its backward multiplies by 1/6 as float32 has it, 0.16666667163, in float64 too"
    ),
}
