"""The machine's compiler, and a cache of compiled code.

Compiled code is in the user's cache directory, in one folder for each translation unit, named by
the hash of everything that it depends on. A folder is moved to its place when it is complete. If
several runs need the same program, one compiles it and the others wait (`_compile_lock`). A
library whose checksum does not match is compiled again.
"""

from __future__ import annotations

import _ctypes
import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

import numpy as np

from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.folders import cache_folder_of
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.base import COMPILER
from gradcheck_cli.engines.eigen.diagnostics import first_error
from gradcheck_cli.engines.eigen.writing import GeneratedCode
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.kit.patience import off_the_clock

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# Arithmetic as written: no fused multiply-add, no reassociation.
ARITHMETIC = ("-std=c++17", "-O1", "-ffp-contract=off")
# Symbols are hidden, because g++ merges the static variables of exported templates over libraries.
FLAGS = (*ARITHMETIC, "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-shared", "-w")
LIMIT_S = 120.0
_PLAINLY = ("-fdiagnostics-color=never", "-ftabstop=1")  # columns are characters
_HEADERS = Path(__file__).parent
_LIBRARY, _SUM, _NEW = "program.so", "sha256", "new-"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A shared library, and the seconds that compiling took; 0 if it was in the cache."""

    library: Path
    seconds: float

    def load(self, anew: bool = False) -> ctypes.CDLL:
        """Load the library into this process; `anew` with static variables of its own. Raises
        EngineFault. A library outside the cache is deleted afterwards."""
        own = self.library.parent
        place = own if os.access(own, os.W_OK) else None
        try:
            if anew:  # a file that is loaded already would not be loaded again
                with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as folder:
                    loaded = ctypes.CDLL(shutil.copy(self.library, folder))
            else:
                loaded = ctypes.CDLL(str(self.library))
        except OSError as error:
            raise EngineFault(f"the compiled code cannot be loaded: {error}") from error
        if own.parent != cache_folder():
            shutil.rmtree(own, ignore_errors=True)
        return loaded


def unload(library: ctypes.CDLL) -> None:
    """Free the memory of a library, which must not be called any more."""
    if hasattr(_ctypes, "dlclose"):  # not on Windows
        _ctypes.dlclose(library._handle)


def compiler() -> list[str]:
    """The compiler's command: $CXX, which may include arguments, or the first of the usual names.
    Raises EngineFault if there is none."""
    command = COMPILER.command()
    if command is None:
        raise EngineFault(f"it needs {COMPILER.description}, but there is none: {COMPILER.install}")
    return command


@cache
def headers() -> Path:
    """The folder with `Eigen` and `unsupported`. Raises EngineFault if there is none."""
    from importlib import metadata

    for file in metadata.files("cmeel-eigen") or ():
        if file.match("eigen3/Eigen/Core"):
            return Path(str(file.locate())).parents[1]
    raise EngineFault("the package cmeel-eigen has no headers: reinstall it")


def program_command(source: str, program: str) -> list[str]:
    """The command that compiles a file that includes only Eigen to a program. Raises
    EngineFault."""
    places = ["-I", str(headers())]
    return [*compiler(), *ARITHMETIC, "-w", *places, "-x", "c++", "-o", program, source]


def search_path() -> list[str]:
    """The folders in which the environment tells a compiler to look for headers."""
    told = [os.environ.get(name, "") for name in ("CPATH", "CPLUS_INCLUDE_PATH")]
    return [folder for path in told for folder in path.split(os.pathsep) if folder]


def cache_folder() -> Path:
    """The folder for compiled programs."""
    return cache_folder_of("eigen")


def compiled(text: str, theirs: Collection[Path] = ()) -> Compiled:
    """The library of a translation unit. `theirs` are the user's files in it. Raises CompileError,
    or EngineFault without a compiler or after the time limit."""
    program, eigen = compiler(), headers()
    folder = cache_folder() / _key(text, program, eigen)
    library = folder / _LIBRARY
    if _is_complete(folder):
        return Compiled(library, 0.0)
    start = time.monotonic()
    with off_the_clock(), _compile_lock(_part(folder.name)) as locked:
        if not _is_complete(folder):  # another run may have compiled it meanwhile
            _sweep(_part(folder.name) if locked else "")
            made = _compile(text, theirs, program, eigen, _part(folder.name))
            library = _keep(made, folder) / _LIBRARY
    return Compiled(library, time.monotonic() - start)


def _part(name: str) -> str:
    """The lock of a program, or of the temporary folder `new-PART-...` in which it is compiled."""
    return name.removeprefix(_NEW)[:2]


@contextmanager
def _compile_lock(part: str, wait: bool = True) -> Iterator[bool]:
    """Hold a lock inside the block, so that no other run compiles the same program. The lock of
    a process that ends is free. Yields False without a lock: another run holds it and `wait` is
    false, Windows has no `fcntl`, the file system has no locks, or there is no place for a
    cache."""
    with ExitStack() as stack:
        try:
            cache_folder().mkdir(parents=True, exist_ok=True)
            file = stack.enter_context((cache_folder() / f"lock-{part}").open("wb"))
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            locked = fcntl is not None
        except OSError:
            locked = False
        yield locked


def _key(text: str, program: Sequence[str], eigen: Path) -> str:
    """A hash of the text, gradcheck's headers, the compiler (its file, the time of its
    installation, and where it looks for headers), Eigen's place and version, and the flags."""
    told = os.stat(program[0])
    own = b"".join(file.read_bytes() for file in sorted(_HEADERS.glob("*.hpp")))
    version = (eigen / "Eigen/src/Core/util/Macros.h").stat()
    parts = [text, os.path.realpath(program[0]), *program[1:], told.st_size, told.st_mtime_ns]
    parts += [eigen, version.st_size, version.st_mtime_ns, *FLAGS, *search_path()]
    return hashlib.sha256(own + "\0".join(map(str, parts)).encode()).hexdigest()[:40]


def _compile(
    text: str, theirs: Collection[Path], program: Sequence[str], eigen: Path, part: str
) -> Path:
    """A new folder next to the cache's, with the library and its checksum."""
    parent = cache_folder()
    try:
        parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{_NEW}{part}-", dir=parent))
    except OSError:  # nowhere to keep the library: only this process will have it
        folder = Path(tempfile.mkdtemp(prefix="gradcheck-"))
    source = folder / "program.cpp"
    source.write_text(text, "utf-8")
    places = ["-I", str(_HEADERS), "-I", str(eigen)]
    command = [*program, *FLAGS, *places, *_PLAINLY, "-o", str(folder / _LIBRARY), str(source)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
            env={**os.environ, "LC_ALL": "C.UTF-8"},  # so that its messages can be parsed
        )
    except subprocess.TimeoutExpired:
        shutil.rmtree(folder, ignore_errors=True)
        raise EngineFault(f"the compiler did not finish within {LIMIT_S:.0f} s") from None
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        raise first_error(done.stderr, source, theirs)
    (folder / _SUM).write_text(_checksum(folder / _LIBRARY))
    return folder


def _sweep(own: str) -> None:
    """Remove the folders of processes that ended during a compilation: their lock is free (this
    process holds `own`), or they are older than any compilation takes."""
    for folder in cache_folder().glob(f"{_NEW}*"):
        with suppress(OSError):
            if _part(folder.name) != own and time.time() - folder.stat().st_mtime < 2 * LIMIT_S:
                with _compile_lock(_part(folder.name), wait=False) as locked:
                    left = locked
            else:
                left = True
            if left:
                shutil.rmtree(folder, ignore_errors=True)


def _keep(made: Path, folder: Path) -> Path:
    """Move a new folder to its place, unless another run was faster."""
    if made.parent != folder.parent:
        return made
    for _ in range(2):
        with suppress(OSError):
            made.rename(folder)
            return folder
        if _is_complete(folder):
            shutil.rmtree(made, ignore_errors=True)
            return folder
        shutil.rmtree(folder, ignore_errors=True)  # remove a broken one
    return made


def _is_complete(folder: Path) -> bool:
    try:
        return (folder / _SUM).read_bytes() == _checksum(folder / _LIBRARY).encode()
    except OSError:
        return False


def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def longs(*numbers: int) -> list[ctypes.c_int64]:
    return [ctypes.c_int64(number) for number in numbers]


def pointer(array: Array | None) -> ctypes.c_void_p:
    """A pointer to the first entry of a contiguous array, which must outlive the call; null for
    None."""
    assert array is None or array.flags.c_contiguous
    return ctypes.c_void_p(None if array is None else array.ctypes.data)


class Library:
    """A compiled program, loaded."""

    def __init__(self, library: ctypes.CDLL, written: GeneratedCode, dtype: str, size: int) -> None:
        self._call = getattr(library, f"gradcheck_{dtype}")
        self._call.restype = ctypes.c_int
        self._written = written
        self._dtype = dtype
        self._size = size

    def run(self, values: Values, name: str, columns: Array | None) -> tuple[Array, Array]:
        """The output, and its derivatives of shape (directions, output), along `columns` of the
        input or, by default, along its entries. Raises EngineFault if the output does not have the
        size of the formula's."""
        written = self._written
        flat = [values[input].astype(self._dtype).ravel() for input in written.places]
        given = np.concatenate(flat)
        size = values[name].size
        rows = None if columns is None else columns.reshape(len(columns), -1).astype(self._dtype)
        count = size if rows is None else len(rows)
        output = np.empty(self._size, dtype=self._dtype)
        tangents = np.empty((count, self._size), dtype=self._dtype)
        arrays = (written.maps, written.constants, written.flags, output, tangents)
        failed = self._call(
            pointer(given),
            *longs(given.size, written.places[name], size),
            pointer(rows),
            *longs(count, self._size),
            *(pointer(array) for array in arrays),
        )
        if failed:
            raise EngineFault(
                "the compiled code returns an output of a different size from the formula"
            )
        return output, tangents
