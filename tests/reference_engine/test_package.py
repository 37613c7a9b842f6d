"""What `import reference_engine` offers, and what it does not drag in."""

import doctest
import subprocess
import sys

import pytest

import reference_engine
from reference_engine.op import TABLE


def test_import_stays_light() -> None:
    code = (
        "import sys, reference_engine, reference_engine.op;"
        "heavy = {'scipy', 'ml_dtypes', 'torch', 'tensorflow', 'jax', 'gradcheck_cli'};"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")


def test_operations_are_functions_of_the_module() -> None:
    for name, row in TABLE.items():
        assert name in dir(reference_engine)
        assert getattr(reference_engine, name) is row
    assert reference_engine.pow is TABLE["power"]
    with pytest.raises(AttributeError, match="no attribute 'no_such_operation'"):
        _ = reference_engine.no_such_operation
    assert all(hasattr(reference_engine, name) for name in reference_engine.__all__)


def test_the_examples_of_the_docstring() -> None:
    assert doctest.testmod(reference_engine).failed == 0
