"""Messages over a pipe: the length in eight bytes, then a pickle. Both ends are ours."""

from __future__ import annotations

import os
import pickle
import struct
from dataclasses import dataclass
from typing import Any

_LENGTH = struct.Struct("!Q")
_LARGEST = 1 << 36  # a length beyond this is not a length: something wrote into the channel


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
class Answer:
    """The next answer of a task, in order."""

    value: Any


class BrokenChannel(Exception):
    """What arrived is no message."""


def encode(message: object) -> bytes:
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


class Decoder:
    """Collects bytes as they come and gives messages as they are complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def take(self) -> Any:
        """The next message, or None. Raises BrokenChannel."""
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > _LARGEST:
            raise BrokenChannel("the length of a message is impossible")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        try:
            return pickle.loads(body)
        except Exception as error:
            raise BrokenChannel(f"a message cannot be read: {error}") from error


def read(descriptor: int) -> Any:
    """Blocks until a message is complete; None at the end of the pipe."""
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


def write(descriptor: int, message: object) -> None:
    """Blocks until the whole message is written."""
    data = memoryview(encode(message))
    while data:
        data = data[os.write(descriptor, data) :]
