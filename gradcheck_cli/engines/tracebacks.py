"""Exceptions for people: the lines of their own code, and where it ended."""

from __future__ import annotations

import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Sequence
from dis import get_instructions
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import TypeVar

from gradcheck_cli.domain.evaluation import Failure, FailureKind
from gradcheck_cli.engines.errors import EngineFault

T = TypeVar("T")

OURS = str(Path(__file__).parent.parent)
REFERENCE = str(Path(OURS).parent / "reference_engine")
_OWN_PACKAGES = (Path(OURS).name, Path(REFERENCE).name)
_ENGINES = Path(OURS) / "engines"
CALLED = (str(_ENGINES / "layer" / "binding.py"), "called")  # calls what a user wrote
_OF_FRAMEWORKS = ("torch", "tensorflow", "jax", "numpy")
_FOR_FORMULAS = (  # what stands beside the modules about layers in an engine's package
    *("engine", "framework", "ops", "kernels", "recorder", "calls", "equations", "wide", "startup"),
)


def installed(path: Iterable[str]) -> tuple[str, ...]:
    """Folders of this `path` (as in `sys.path`) with installed code: the interpreter's own, and
    those of installations below a virtual environment."""
    own = {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")}
    others = {folder for folder in path if Path(folder).name in ("site-packages", "dist-packages")}
    return tuple(own | others)


LIBRARIES = installed(sys.path)
_NUMERICS = tuple(
    str(Path(folder) / name) for folder in LIBRARIES for name in ("numpy", "scipy", "flint")
)
_SHOWN = 4
_LONGEST, _MOST_LINES, _LAST_LINES = 1000, 40, 4  # of what an exception says
_EXHAUSTED_TYPES = {"OutOfMemoryError", "ResourceExhaustedError"}  # of torch, of TensorFlow
_EXHAUSTED_WORDS = ("can't allocate memory", "RESOURCE_EXHAUSTED")  # torch on the CPU, XLA
_ABOUT_TRACEBACKS = (  # what JAX adds to every exception
    "--------------------",
    "For simplicity, JAX has removed its internal frames from the traceback of the following "
    "exception. Set JAX_TRACEBACK_FILTERING=off to include these.",
)
_OF_THE_RUN = re.compile(
    r"\{\{(?:function_)?node [^{}]*\}\}\s*|\s*name: ?$|\[_XlaMustCompile=[^\]]*\]"
)
"""What TensorFlow adds to its messages: where in its graphs, by names that change with each run."""
_OUR_FRAME = re.compile(rf'^ *File "{re.escape(OURS)}.*\n+', re.M)
"""In a message of TensorFlow's, which tells where its graph was made."""
_FILTER = str(Path("tensorflow", "python", "util", "traceback_utils.py"))
"""What removes TensorFlow's own frames from an exception that is raised while it traces."""
_BOLD, _NORMAL = "\x1b[1m", "\x1b[0m"
_OF_KERAS = re.compile(r"Exception encountered when calling .*?\x1b\[1m(?P<said>.*?)\x1b\[0m", re.S)
"""What a layer of Keras raises: its own words are between others."""
_OF_A_GRAPH = re.compile(r"Graph execution error:.*?\n(?P<said>[^\n]+)\n\s*\[\[\{\{node", re.S)
"""What a graph of TensorFlow raises: the words of the operation, after where it was made."""
_ASKED = "Stack (most recent call first):"
_DUMPED = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)$')


def as_failure(error: BaseException, *, ours: bool = False, who: str = "it") -> Failure:
    """The exception as a failure: an engine's fault with its own words, all others with a short
    traceback. `ours` is passed on to `short_traceback`; `who` called sys.exit."""
    words = _text_of(error).strip().splitlines()
    said = _shortened(words[0].strip()) if words else ""
    if isinstance(error, EngineFault):
        return Failure(error.kind, said or type(error).__name__, error.detail, place=error.place)
    left = isinstance(error, SystemExit)
    message = f"{who} called sys.exit({said})" if left else one_line(error)
    kind: FailureKind = "out-of-memory" if _is_exhausted(error) else "raised"
    return Failure(kind, message, short_traceback(error, ours=ours))


def internal_failure(error: BaseException, what: str) -> Failure:
    """An exception of gradcheck's own code while it did `what`, as a failure. Exhausted memory is
    reported as a limit of the machine."""
    if _is_exhausted(error):
        return as_failure(error, ours=True)
    message = f"{what}: {one_line(error)}; please report this bug in gradcheck"
    return Failure("internal", message, short_traceback(error, ours=True))


def is_internal(error: BaseException) -> bool:
    """Whether an exception began in gradcheck's own code, or in NumPy called by it, and not in user
    code or a framework. Errors of a framework about missing features (RuntimeError, and JAX errors
    without frames) belong to the framework, and EngineFault is expected."""
    ours = _last_of_ours(error)
    if ours is None:
        return False
    filtered = any("JAX_TRACEBACK_FILTERING" in note for note in getattr(error, "__notes__", ()))
    filtered |= any(
        frame.f_code.co_filename.endswith(_FILTER) for frame, _ in walk_tb(error.__traceback__)
    )
    border = filtered or _is_border(Path(ours.tb_frame.f_code.co_filename))
    return not border or is_of_our_line(error)


def is_of_our_line(error: BaseException) -> bool:
    """Whether an exception began in a line of gradcheck that is wrong independent of users and
    frameworks: an undefined name, a missing attribute, key or index, or a failed assertion."""
    ours = _last_of_ours(error)
    if ours is None:
        return False
    if isinstance(error, NameError | AssertionError):
        return True
    if isinstance(error, AttributeError) and error.name is not None:
        module = str(getattr(error.obj, "__module__", "builtins"))
        return module.partition(".")[0] in ("builtins", "numpy", *_OWN_PACKAGES)
    return any(
        i.opname.startswith(("BINARY_SUBSCR", "BINARY_SLICE", "UNPACK_")) or i.argrepr == "[]"
        for i in get_instructions(ours.tb_frame.f_code)
        if i.offset == ours.tb_lasti
    )


def _last_of_ours(error: BaseException) -> TracebackType | None:
    """The frame in which an exception began, if it is ours, or NumPy's called by ours."""
    if isinstance(error, EngineFault | RuntimeError | MemoryError):
        return None
    last, step = None, error.__traceback__
    while step is not None:
        if not step.tb_frame.f_code.co_filename.startswith(_NUMERICS):
            last = step
        step = step.tb_next
    if last is None or not last.tb_frame.f_code.co_filename.startswith((OURS, REFERENCE)):
        return None
    return last


def raise_if_internal(error: BaseException) -> None:
    """Raises the exception again if it is internal, because it says nothing about the layer
    then."""
    if is_internal(error):
        raise error


def where_it_runs(look: Callable[[], T], nothing: T) -> T:
    """Return the result of `look`, or `nothing` if the layer does not run for it: at these numbers,
    in this dtype or mode, or while watched. Raises exceptions of gradcheck's own code."""
    try:
        return look()
    except Exception as error:
        raise_if_internal(error)
        return nothing


def _is_border(path: Path) -> bool:
    """Whether the module calls user code: an exception that begins there belongs to the user."""
    if not path.is_relative_to(_ENGINES):
        return False
    package, *rest = path.relative_to(_ENGINES).with_suffix("").parts
    return package == "layer" or (package in _OF_FRAMEWORKS and rest[0] not in _FOR_FORMULAS)


def without_lines(error: BaseException) -> bool:
    """Whether the exception was raised by a user's function without Python lines: a built-in, or a
    function that does not accept these arguments."""
    frames = traceback.extract_tb(error.__traceback__)
    files = [(f.filename, f.name) for f in frames if not f.filename.startswith("<frozen")]
    return bool(files) and files[-1] == CALLED


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # of a class that somebody wrote
        return "(its message cannot be shown)"


def _shortened(line: str) -> str:
    """The line, shortened to a readable length, because exceptions may contain whole arrays."""
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."


def one_line(error: BaseException) -> str:
    """The type of the exception and the first line of its message; two lines if the first announces
    the second. An engine's fault is its words alone."""
    text = _text_of(error)
    if within := _OF_KERAS.match(text) or _OF_A_GRAPH.match(text):
        text = within["said"]
    lines = text.strip().splitlines()
    said = [_OF_THE_RUN.sub("", line).strip() for line in lines[:2]]
    name = type(error).__name__
    if not said:
        return name
    words = _shortened(" ".join(said) if said[0].endswith(":") else said[0])
    return words if isinstance(error, EngineFault) else f"{name}: {words}"


def _is_exhausted(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or type(error).__name__ in _EXHAUSTED_TYPES:
        return True
    return isinstance(error, RuntimeError) and any(w in _text_of(error) for w in _EXHAUSTED_WORDS)


def short_traceback(error: BaseException, *, ours: bool = False) -> str:
    """The last frames that are not ours, and the exception. Frames of libraries are left out if
    there are others, except the one that raised. With `ours`, our own frames are shown if there are
    no others, because the mistake is then in gradcheck, unless the layer has no lines."""
    everything = traceback.extract_tb(error.__traceback__)
    frames = [f for f in everything if not f.filename.startswith((OURS, "<frozen"))]
    # a dataclass of a framework is being made: no line of anybody
    frames = [f for f in frames if (f.filename, f.name) != ("<string>", "__init__")]
    own = [frame for frame in frames if not frame.filename.startswith(LIBRARIES)]
    if own:
        last = [frames[-1]] if frames[-1] is not own[-1] else []
        frames = own[-_SHOWN:] + last
    # a SyntaxError shows its own line
    if ours and not frames and not isinstance(error, SyntaxError) and not without_lines(error):
        frames = everything
    lines = traceback.format_list(frames[-_SHOWN:])
    lines += [_OUR_FRAME.sub("", line) for line in traceback.format_exception_only(error)]
    text = "".join(lines).replace(_BOLD, "").replace(_NORMAL, "")
    told = [line for line in text.splitlines() if line not in _ABOUT_TRACEBACKS]
    if len(told) > _MOST_LINES:
        told = [*told[: _MOST_LINES - _LAST_LINES], "...", *told[-_LAST_LINES:]]
    return "\n".join(_shortened(line) for line in told)


def short_dump(words: str) -> str:
    """The end of the output of a process that crashed or was asked for its stack. faulthandler's
    dump of all threads is reduced to the error, and the frames of the affected thread that are not
    ours, innermost first."""
    lines = words.splitlines()
    start = _start_of_dump(lines)
    if start is None:
        return words
    theirs, own = _struck(lines[start + 1 :])
    shown = own[:_SHOWN] or theirs[:_SHOWN]
    if own and theirs[0] != own[0]:
        shown = [theirs[0], *own[: _SHOWN - 1]]
    said = lines[max(start - _SHOWN, 0) : start + 1] if lines[start] != _ASKED else []
    return "\n".join([*said, *shown])


def dumped_line(words: str) -> tuple[str, int] | None:
    """The user's file and line at which a process stood, by its last words."""
    lines = words.splitlines()
    start = _start_of_dump(lines)
    own = [] if start is None else _struck(lines[start + 1 :])[1]
    found = _DUMPED.match(own[0]) if own else None
    return (found["file"], int(found["line"])) if found else None


def _start_of_dump(lines: Sequence[str]) -> int | None:
    heads = "Fatal Python error:", _ASKED
    starts = [i for i, line in enumerate(lines) if line.startswith(heads)]
    return starts[-1] if starts else None


def _struck(lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """The frames of the first thread in a dump that are not ours, and those of no library."""
    frames: list[str] = []
    for line in lines:
        if _DUMPED.match(line):
            frames.append(line)
        elif frames:
            break  # the next thread, or the list of extension modules
    theirs = [line for line in frames if not _file(line).startswith((OURS, "<frozen"))]
    return theirs, [line for line in theirs if not _file(line).startswith(LIBRARIES)]


def _file(line: str) -> str:
    found = _DUMPED.match(line)
    return found["file"] if found else ""
