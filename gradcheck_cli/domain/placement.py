"""The device and matmul precision that an engine uses."""

from __future__ import annotations

import re

from gradcheck_cli.domain.records import dataclass

DEVICE = r"^(cpu|cuda(:\d+)?)$"
DEVICES = "there are cpu, cuda (a GPU), and cuda:1 for the second GPU"

MATMULS = ("full", "tf32")


@dataclass(frozen=True, slots=True)
class Placement:
    """A device, and the precision of float32 matrix products there: "full" is IEEE float32, "tf32"
    has ten fraction bits and is faster on some hardware."""

    device: str = "cpu"
    matmul: str = "full"

    @property
    def kind(self) -> str:
        return self.device.partition(":")[0]

    @property
    def index(self) -> int:
        return int(self.device.partition(":")[2] or 0)


HOST = Placement()


def placement(device: str, matmul: str) -> Placement:
    """The placement of a device; on the CPU, products are always full."""
    return HOST if device == HOST.device else Placement(device, matmul)


def is_device(text: str) -> bool:
    return re.match(DEVICE, text) is not None
