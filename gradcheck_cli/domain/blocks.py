"""The blocks of second derivatives, one for each pair of inputs."""

from __future__ import annotations

from collections.abc import Sequence

from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.records import dataclass

MOST_PAIRED = 4  # inputs, each paired with each where every pair takes passes of its own
PAIRED_ENTRIES = 4  # of all inputs, for a whole Hessian where every pair of entries takes a pass


@dataclass(frozen=True, slots=True)
class HessianBlock:
    """The derivatives of the gradient of `rows` by `columns`, both names of inputs. Answers of
    engines, checks and findings call it "rows.columns"; names of parameters have dots, too, so only
    who knows the inputs can tell the two apart."""

    rows: str
    columns: str

    def __str__(self) -> str:
        return f"{self.rows}.{self.columns}"

    @classmethod
    def named(cls, name: str, inputs: Sequence[str]) -> HessianBlock:
        """The block of this name, of a function with these inputs. KeyError: there is none."""
        for rows in inputs:
            columns = name.removeprefix(f"{rows}.")
            if columns != name and columns in inputs:
                return cls(rows, columns)
        raise KeyError(name)

    @staticmethod
    def is_of(name: str, input: str) -> bool:
        """Whether the block of this name has the input as its rows or its columns."""
        return name.startswith(f"{input}.") or name.endswith(f".{input}")


def hessian_blocks(inputs: Sequence[str]) -> list[HessianBlock]:
    """All of them, row by row."""
    return [HessianBlock(rows, columns) for rows in inputs for columns in inputs]


def blocks_in(mode: Mode, inputs: Sequence[str]) -> list[HessianBlock]:
    """The blocks that a composition of modes computes. Forward over forward takes passes for each:
    of many inputs, each is paired with itself and with the next alone."""
    every = hessian_blocks(inputs)
    if mode != "forward-over-forward" or len(inputs) <= MOST_PAIRED:
        return every
    after = dict(zip(inputs, [*inputs[1:], inputs[0]], strict=True))
    return [block for block in every if block.columns in (block.rows, after[block.rows])]
