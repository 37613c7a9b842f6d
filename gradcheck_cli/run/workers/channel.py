"""Messages over a pipe: the length in eight bytes, followed by the message.

Questions travel to the worker as pickles. Answers are not trusted (`wire`): the worker runs the
code of users, and so may every process that it has started.
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
    """Questions to be answered in order. The first has this number, and each following one the
    next.

    `boundary`: these questions are about another spec than the previous ones. If the code of the
    previous spec has changed the process for good, the worker answers Spent.
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
    """The framework cannot be imported, and the worker ends."""

    message: str
    detail: str


@dataclass(frozen=True, slots=True)
class Spent:
    """The worker gives no more answers and ends, because the code of a user has changed `what` for
    good."""

    what: str


@dataclass(frozen=True, slots=True)
class Compiling:
    """A compiler begins or ends its work on the question. The time limit does not run in
    between."""

    begins: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the question with this number."""

    number: int
    value: Any


@dataclass(frozen=True, slots=True)
class SoFar:
    """The part of the answer to the question with this number that is already known."""

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
    """What arrived is not a message."""


def encode(message: object) -> bytes:
    """A question as bytes."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


class Decoder:
    """Collects the bytes of answers and returns each message when it is complete."""

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
    """An answer as bytes. Raises TypeError if the answer contains a type that may not travel."""
    from gradcheck_cli.domain import wire

    values = [getattr(message, field.name) for field in fields(message)]
    body = wire.encode([_NAMES[type(message)], *values])
    return _LENGTH.pack(len(body)) + body


def write(descriptor: int, data: bytes) -> None:
    """Writes all bytes. Blocks until it is done."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
