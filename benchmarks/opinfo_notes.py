"""Why gradcheck complains about an operation of PyTorch that torch.autograd.gradcheck passes, or
passes one that it fails: read, and tried, op by op."""

from __future__ import annotations

NOTES: dict[str, str] = {}
