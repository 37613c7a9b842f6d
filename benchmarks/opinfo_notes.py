"""Why gradcheck complains about an operation of PyTorch that torch.autograd.gradcheck passes, or
passes one that it fails: read, and tried, op by op."""

from __future__ import annotations

NOTES: dict[str, str] = {
    "nn.functional.hardsigmoid": (
        "its backward multiplies by 1/6 as float32 has it, 0.16666667163, in float64 too"
    ),
}
