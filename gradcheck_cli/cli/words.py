"""Small texts that several commands share."""

from __future__ import annotations

from collections.abc import Iterable

from gradcheck_cli.domain.synonyms import nearest


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """` Did you mean `X`?`, or nothing."""
    choice = nearest(word, choices)
    return f" Did you mean `{choice}`?" if choice else ""


def completed(begun: str, names: Iterable[str]) -> list[str]:
    """The completions that a shell offers for an incomplete word."""
    return [name for name in names if name.startswith(begun)]


def counted(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def skipped_words(files: int) -> str:
    """The message about YAML files in folders that are not specs."""
    it_is, has = ("it is", "has") if files == 1 else ("they are", "have")
    return (
        f"{counted(files, 'YAML file')} skipped: {it_is} not named *.gradcheck.yaml and {has} "
        "neither a formula under `model` nor a key `implementations`"
    )
