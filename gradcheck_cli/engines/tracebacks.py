"""Tracebacks for people: their own lines, and where it ended."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

OURS = str(Path(__file__).parent.parent)
LIBRARIES = tuple({sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")})
_SHOWN = 4


def short_traceback(error: BaseException) -> str:
    """The last frames that are not ours, and the exception. Frames of libraries are left out where
    there are others, but for the one in which it was raised."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(OURS)
    ]
    own = [frame for frame in frames if not frame.filename.startswith((*LIBRARIES, "<frozen"))]
    if own:
        last = [frames[-1]] if frames[-1] is not own[-1] else []
        frames = own[-_SHOWN:] + last
    lines = traceback.format_list(frames[-_SHOWN:])
    lines += traceback.format_exception_only(error)
    return "".join(lines).rstrip()
