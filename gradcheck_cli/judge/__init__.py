"""The judge: takes evaluations and the truth, returns checks and findings. Pure."""

from gradcheck_cli.judge.agreement import mode_disagreements
from gradcheck_cli.judge.case import flushed, judge
from gradcheck_cli.judge.suspects import is_suspect, lose_little, suspect_entries, suspects
from gradcheck_cli.judge.training import judge_training

__all__ = [
    "flushed",
    "is_suspect",
    "judge",
    "judge_training",
    "lose_little",
    "mode_disagreements",
    "suspect_entries",
    "suspects",
]
