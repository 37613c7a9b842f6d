"""Judging: evaluations and truth in, checks and findings out. Pure."""

from gradcheck_cli.judge.case import judge, suspect_entries, suspects
from gradcheck_cli.judge.flushing import flushed
from gradcheck_cli.judge.training import judge_training

__all__ = ["flushed", "judge", "judge_training", "suspect_entries", "suspects"]
