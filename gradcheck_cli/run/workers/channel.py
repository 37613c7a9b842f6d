"""Messages over a pipe: their length in eight bytes, then the message.

Questions go to the worker as a pickle. What comes back is read without trust (`wire`): the worker
runs code of users, and so may every process that it started.
"""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from gradcheck_cli.domain.records import dataclass

_LENGTH = struct.Struct("!Q")
LARGEST = 1 << 28
"""Bytes of an answer, beside those of its questions. The largest answers are whole Jacobians of
`directions.FULL_ENTRIES` numbers with everything that is known of each: a hundredth of this."""


@dataclass(frozen=True, slots=True)
class Request:
    """Questions, to be answered in order; the first has this number, and each the next.

    `boundary`: they are about another spec than those before. A worker that the code of the last
    one has changed for good answers with Spent.
    """

    first: int
    questions: Sequence[Any]
    boundary: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker has imported its framework."""

    version: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Unusable:
    """The framework cannot be imported; the worker ends."""

    message: str
    detail: str


@dataclass(frozen=True, slots=True)
class Spent:
    """The worker answers no more: a user's code has changed `what`; the worker ends."""

    what: str


@dataclass(frozen=True, slots=True)
class Compiling:
    """A compiler begins its work for the question, or is done: meanwhile the clock stands."""

    begins: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the question of that number."""

    number: int
    value: Any


@dataclass(frozen=True, slots=True)
class SoFar:
    """What is known already of the answer to the question of that number."""

    number: int
    value: Any


Message = Ready | Unusable | Spent | Compiling | SoFar | Answer
_KINDS: dict[str, tuple[type[Message], tuple[type, ...]]] = {
    "ready": (Ready, (str, float)),
    "unusable": (Unusable, (str, str)),
    "spent": (Spent, (str,)),
    "compiling": (Compiling, (bool,)),
    "so-far": (SoFar, (int, object)),
    "answer": (Answer, (int, object)),
}
_NAMES = {kind: name for name, (kind, _) in _KINDS.items()}


class BrokenChannel(Exception):
    """What arrived is no message."""


def encode(message: object) -> bytes:
    """A question as it travels."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


class Decoder:
    """Collects the bytes of answers as they come and gives messages as they are complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.largest = LARGEST

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def take(self) -> Message | None:
        """The next message, or None. Raises BrokenChannel."""
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > self.largest:
            raise BrokenChannel("the length of a message is impossible")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        return _message(body)


def _message(body: bytes) -> Message:
    from gradcheck_cli.domain import wire

    try:
        name, *values = wire.decode(body)
        kind, types = _KINDS[name]
        if not all(isinstance(*pair) for pair in zip(values, types, strict=True)):
            raise wire.Malformed(f"the fields of a message `{name}`")
        return kind(*values)
    except (wire.Malformed, TypeError, ValueError, KeyError) as error:
        raise BrokenChannel(f"a message cannot be read: {error}") from error


def read(descriptor: int) -> Any:
    """The next questions. Blocks until they are complete; None at the end of the pipe."""
    head = _read_exactly(descriptor, _LENGTH.size)
    if head is None:
        return None
    body = _read_exactly(descriptor, _LENGTH.unpack(head)[0])
    return None if body is None else pickle.loads(body)


def _read_exactly(descriptor: int, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        piece = os.read(descriptor, min(count - len(parts), 1 << 20))
        if not piece:
            return None
        parts += piece
    return bytes(parts)


def packed(message: Message) -> bytes:
    """An answer as it travels. Raises TypeError where the answer holds what cannot."""
    from gradcheck_cli.domain import wire

    values = [getattr(message, field.name) for field in fields(message)]
    body = wire.encode([_NAMES[type(message)], *values])
    return _LENGTH.pack(len(body)) + body


def write(descriptor: int, data: bytes) -> None:
    """Blocks until all is written."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
