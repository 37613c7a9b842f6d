"""The blocks of second derivatives, one for each pair of inputs."""

from __future__ import annotations

from collections.abc import Sequence

from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.records import dataclass

MOST_PAIRED = 4  # inputs up to which all pairs are taken if every pair needs its own passes
PAIRED_ENTRIES = 4  # entries of all inputs up to which every pair of entries gets a pass


@dataclass(frozen=True, slots=True)
class HessianBlock:
    """The derivatives of the gradient of `rows` by `columns`, both names of inputs. Engines'
    answers, checks and findings call it "rows.columns". Names of parameters have dots, too, so the
    two names can be separated only if the inputs are known."""

    rows: str
    columns: str

    def __str__(self) -> str:
        return f"{self.rows}.{self.columns}"

    @classmethod
    def named(cls, name: str, inputs: Sequence[str]) -> HessianBlock:
        """The block of this name, for a function with these inputs. Raises KeyError if there is
        none."""
        for rows in inputs:
            columns = name.removeprefix(f"{rows}.")
            if columns != name and columns in inputs:
                return cls(rows, columns)
        raise KeyError(name)

    @staticmethod
    def is_of(name: str, input: str) -> bool:
        """Check whether the block of this name has the input as its rows or its columns."""
        return name.startswith(f"{input}.") or name.endswith(f".{input}")


def hessian_blocks(inputs: Sequence[str]) -> list[HessianBlock]:
    """All blocks, row by row."""
    return [HessianBlock(rows, columns) for rows in inputs for columns in inputs]


def blocks_in(mode: Mode, inputs: Sequence[str]) -> list[HessianBlock]:
    """The blocks that a composition of modes computes. Forward over forward needs passes for each
    block, so with many inputs each is paired only with itself and with the next."""
    every = hessian_blocks(inputs)
    if mode != "forward-over-forward" or len(inputs) <= MOST_PAIRED:
        return every
    after = dict(zip(inputs, [*inputs[1:], inputs[0]], strict=True))
    return [block for block in every if block.columns in (block.rows, after[block.rows])]
