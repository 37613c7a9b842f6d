"""Damages the text of a spec: lines, words and characters are moved, doubled, cut, or replaced by
text that is hardest for YAML and the formula language."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

Damage = Callable[[np.random.Generator, str], str]

NASTY = (
    "10" * 20,
    str(10**40),
    f"-{10**400}",
    "1e999",
    "-1e-999",
    ".nan",
    "-.inf",
    "0x1F",
    "0o17",
    "1_000",
    "1:30",
    "~",
    "null",
    "yes",
    "no",
    "''",
    '"\\ud800"',
    '"\\0"',
    "&a [*a]",
    "&a {x: 1}",
    "*missing",
    "<<: *a",
    "!!python/object:os.system x",
    "!!binary aGVsbG8=",
    "!!set {a, b}",
    "!!timestamp 2001-12-14",
    "2001-12-14",
    "[" * 200,
    "[" * 60 + "1" + "]" * 60,
    "{a: " * 60 + "1" + "}" * 60,
    "{}",
    "[]",
    "[[], [1]]",
    "[1, [2]]",
    "x" * 300,
    "ユニコード",
    "𝛼 + é",
    "\u202e\u200b",
    "\ufeff",
    "\x85",
    "\u2028",
    "\t",
    "\r",
    "\x07",
    "---",
    "...",
    "--- |",
    "? a\n: b",
    "%YAML 9.9",
    "# nothing",
    "|",
    ">-",
    '"',
    "'",
    ":",
    "- ",
    "@",
    "`",
)

EXPRESSIONS = (
    "__import__('os')",
    "x.__class__",
    "lambda: 0",
    "x[10**30]",
    "x[::0]",
    "x[1:2:3, ...]",
    "2 ** 10000",
    "10 ** 400",
    "1 // 0",
    "1 % 0",
    "1 / 0",
    "0.0 ** -1",
    "-x ** -x",
    "exp(exp",
    "exp()",
    "exp(x, x)",
    "exp(y=x)",
    "sum(x, axis=10**20)",
    "sum(x, axis=True)",
    "sum(x, axis='a')",
    "reshape(x, (10**30,))",
    "reshape(x, (-1, -1))",
    "broadcast_to(x, (10**9, 10**9))",
    "full(10**12, 1.0)",
    "eye(10**9)",
    "arange(10**12)",
    "one_hot(3, 10**12)",
    "clip(3, min=10**20)",
    "hardtanh(2, min=10**20)",
    "polygamma(x, n=10**18)",
    "polygamma(x, n=-1)",
    "matrix_power(x, n=10**18)",
    "tile(x, 10**18)",
    "repeat(x, 10**18)",
    "pad(x, 10**18)",
    "roll(x, 10**30)",
    "conv1d(x, x)",
    "x @ x @ x",
    "x = x",
    "x, y = x",
    "f(f)",
    "def f(a): return f(a)",
    "for i in range(10**30): x = x",
    "while True: pass",
    "x if x else x",
    "[x, x]",
    "(x,)",
    "x == x",
    "not x",
    "x < x < x",
    "~x",
    "x << 2",
    "x.T",
    "sum(x)(x)",
    "'x'",
    "b'x'",
    "f'{x}'",
    "1j * x",
    "...",
    "None",
    "nan * x",
    "inf * x",
    "1e999 * x",
    "stop_gradient(x)",
    "(" * 150 + "x" + ")" * 150,
    "-" * 3000 + "x",
    "+".join(["x"] * 500),
    "print(x)",
    "yield x",
    "import os",
    "@custom_gradient\ndef f(a): return a",
    "\\",
    "x ;",
    "x := 1",
    "*x",
    "**x",
    "del x",
    "global x",
)


def _replaced_line(rng: np.random.Generator, text: str) -> str:
    lines = text.split("\n")
    k = int(rng.integers(len(lines)))
    head, colon, _ = lines[k].partition(":")
    lines[k] = f"{head}{colon} {rng.choice(NASTY)}" if colon else str(rng.choice(NASTY))
    return "\n".join(lines)


def _moved_lines(rng: np.random.Generator, text: str) -> str:
    lines = text.split("\n")
    a, b = (int(k) for k in rng.integers(0, len(lines), 2))
    choice = int(rng.integers(4))
    if choice == 0:
        del lines[a]
    elif choice == 1:
        lines.insert(b, lines[a])
    elif choice == 2:
        lines[a], lines[b] = lines[b], lines[a]
    else:
        lines[a] = " " * int(rng.integers(1, 5)) + lines[a]
    return "\n".join(lines)


def _replaced_word(rng: np.random.Generator, text: str) -> str:
    spans = _words(text)
    if not spans:
        return text
    start, end = spans[int(rng.integers(len(spans)))]
    other = spans[int(rng.integers(len(spans)))]
    swap = text[slice(*other)] if rng.random() < 0.4 else str(rng.choice(NASTY))
    return text[:start] + swap + text[end:]


def _replaced_characters(rng: np.random.Generator, text: str) -> str:
    alphabet = "[]{}():,.'\"|>&*!%@`#-+/~^\n\t 019eEx_\x00é𝛼\ud8ff"
    for _ in range(int(rng.integers(1, 4))):
        k = int(rng.integers(len(text) + 1))
        length = int(rng.integers(0, 3))
        text = text[:k] + str(alphabet[int(rng.integers(len(alphabet)))]) + text[k + length :]
    return text


def _nasty_expression(rng: np.random.Generator, text: str) -> str:
    """A nasty expression in the formula: on a new line, or in place of a name."""
    expression = str(rng.choice(EXPRESSIONS))
    head, mark, body = text.partition("model: |\n")
    if not mark:
        return text.replace("x", f"({expression})", 1) if rng.random() < 0.5 else text
    if rng.random() < 0.5:
        return f"{head}{mark}  {expression}\n{body}"
    return head + mark + body.replace("x", expression, 1)


def _cut(rng: np.random.Generator, text: str) -> str:
    return text[: int(rng.integers(len(text) + 1))]


def _twice(rng: np.random.Generator, text: str) -> str:
    return f"{text}\n---\n{text}"


def _other_ends(rng: np.random.Generator, text: str) -> str:
    return text.replace("\n", str(rng.choice(["\r\n", "\r", "\n\n", "\u2028"])))


DAMAGES: tuple[Damage, ...] = (
    _replaced_line,
    _replaced_line,
    _moved_lines,
    _moved_lines,
    _replaced_word,
    _replaced_word,
    _replaced_characters,
    _nasty_expression,
    _nasty_expression,
    _cut,
    _twice,
    _other_ends,
)


def _words(text: str) -> list[tuple[int, int]]:
    spans, start = [], None
    for k, character in enumerate(text + " "):
        if character.isalnum() or character in "._":
            start = k if start is None else start
        elif start is not None:
            spans.append((start, k))
            start = None
    return spans


def shorter(text: str) -> Iterator[str]:
    lines = text.split("\n")
    size = len(lines) // 2
    while size:
        for start in range(0, len(lines), size):
            yield "\n".join([*lines[:start], *lines[start + size :]])
        size //= 2
