"""What a person is told of an exception, and of a crash."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.tracebacks import (
    CALLED,
    LIBRARIES,
    OURS,
    as_failure,
    dumped_line,
    installed,
    is_internal,
    one_line,
    short_dump,
)
from reference_engine.arithmetic.ball_choices import order


class OutOfMemoryError(RuntimeError):
    """As torch calls it."""


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ValueError("no\nmore"), "raised", "ValueError: no"),
        (KeyError(), "raised", "KeyError"),
        (SystemExit(3), "raised", "it called sys.exit(3)"),
        (KeyboardInterrupt(), "raised", "KeyboardInterrupt"),
        (Unsupported("no bfloat16"), "unsupported", "no bfloat16"),
        (MemoryError(), "out-of-memory", "MemoryError"),
        (OutOfMemoryError("CUDA"), "out-of-memory", "OutOfMemoryError: CUDA"),
        (RuntimeError("CPU: can't allocate memory"), "out-of-memory", "RuntimeError: CPU: can't"),
    ],
)
def test_kind_and_first_line(error: BaseException, kind: str, message: str) -> None:
    failure = as_failure(error)
    assert failure.kind == kind
    assert failure.message.startswith(message)


def test_the_lines_of_the_user_are_shown() -> None:
    def layer() -> None:
        int("no number")

    with pytest.raises(ValueError, match="invalid literal") as caught:
        layer()
    detail = as_failure(caught.value).detail
    assert 'int("no number")' in detail
    assert detail.endswith("ValueError: invalid literal for int() with base 10: 'no number'")


def test_of_jax_the_lines_of_the_user_are_shown_and_no_others() -> None:
    @jax.custom_vjp
    def layer(x: float) -> float:
        return x

    layer.defvjp(lambda x: (x, x), lambda x, y_bar: (float(x) / 0,))
    with pytest.raises(ZeroDivisionError) as caught:
        jax.grad(layer)(1.0)
    first, *_, last = as_failure(caught.value).detail.splitlines()
    assert first.startswith(f'  File "{__file__}"')
    assert last == "ZeroDivisionError: float division by zero"


def test_a_crash_is_shown_from_the_error_to_the_users_lines() -> None:
    library = sys.modules["ctypes"].__file__ if "ctypes" in sys.modules else None
    library = library or f"{sys.base_prefix}/lib/x.py"
    dump = f"""\
said before
Fatal Python error: Segmentation fault

Current thread 0x00007f (most recent call first):
  File "{library}", line 519 in string_at
  File "/home/me/layers.py", line 8 in helper
  File "/home/me/layers.py", line 6 in layer
  File "{__file__.replace("tests", "gradcheck_cli")}", line 300 in run

Thread 0x00008f (most recent call first):
  File "/home/me/other.py", line 1 in other

Extension modules: numpy._core._multiarray_umath (total: 1)"""
    shown = short_dump(dump).splitlines()
    assert shown[:2] == ["said before", "Fatal Python error: Segmentation fault"]
    assert '  File "/home/me/layers.py", line 8 in helper' in shown
    assert not any("other.py" in line or "Extension" in line for line in shown)


def test_a_process_that_was_asked_where_it_is_says_its_stack() -> None:
    ours = __file__.replace("tests", "gradcheck_cli")
    head = "Stack (most recent call first):"
    mine = '  File "/home/me/layers.py", line 8 in helper'
    dump = f'printed\n{head}\n{mine}\n  File "{ours}", line 300 in run'
    assert short_dump(dump) == mine
    assert dumped_line(dump) == ("/home/me/layers.py", 8)
    assert dumped_line(f'{head}\n  File "{ours}", line 300 in run') is None


def test_a_virtual_environment_over_another_installation_sees_the_packages_of_both() -> None:
    """A line of PyTorch is no line of a user, wherever PyTorch is installed."""
    base, mine = "/opt/base/lib/python3.12/site-packages", "/home/me/layers"
    folders = installed([base, mine])
    assert set(LIBRARIES) <= {*folders, *sys.path}
    assert base in folders
    assert mine not in folders


def test_words_without_a_dump_stay_as_they_are() -> None:
    assert short_dump("terminate called\nabort") == "terminate called\nabort"


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def test_an_exception_that_says_too_much_or_nothing_is_told_all_the_same() -> None:
    long = as_failure(ValueError("x" * 10**6 + "\n" + "line\n" * 10**4))
    assert len(long.message) < 1100
    assert len(long.detail) < 10_000
    assert as_failure(Mute()).message.startswith("Mute: ")


def raised_by(function: Callable[[], object]) -> BaseException:
    with pytest.raises((TypeError, ValueError, KeyError)) as caught:
        function()
    return caught.value


def test_what_gradchecks_own_lines_raise_is_its_own_mistake() -> None:
    """In them, and in what they ask of NumPy."""
    assert is_internal(raised_by(lambda: FORMATS["float32"].ulp(np.array(["a"]))))
    assert is_internal(raised_by(lambda: order(1.0, "a")))


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("return nobody", True),
        ("return [][0]", True),
        ("return {}['nobody']", True),
        ("a, b = [1]", True),
        ("return [].nobody", True),
        ("assert given is None", True),
        ("return given.nobody", False),
        ("return given()", False),
        ("return int('no number')", False),
        ("return given + 1", False),
    ],
)
def test_a_line_that_is_wrong_by_itself_is_ours_wherever_it_stands(line: str, ours: bool) -> None:
    """What it calls is not, in a module where users' functions are called."""
    defined: dict[str, Any] = {}
    exec(compile(f"def line(given):\n    {line}", CALLED[0], "exec"), defined)

    def users() -> None:
        return {}["nobody"]

    with pytest.raises(Exception) as caught:  # noqa: PT011 - of any kind
        defined["line"](users)
    assert is_internal(caught.value) is ours


def test_what_a_user_or_a_framework_raises_is_theirs() -> None:
    def users() -> None:
        FORMATS["float32"].round(int("no number"))

    assert not is_internal(raised_by(users))
    assert not is_internal(raised_by(lambda: jax.numpy.zeros(3) + jax.numpy.zeros(2)))
    assert not is_internal(raised_by(lambda: {}["nobody"]))
    assert not is_internal(Unsupported("no bfloat16"))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "{{function_node __wrapped__MatrixInverse_device_/job:localhost}} Input is not "
            "invertible. [Op:MatrixInverse] name: ",
            "Input is not invertible. [Op:MatrixInverse]",
        ),
        (
            "cannot compile f_16[_XlaMustCompile=true,config_proto=86,executor_type=11] of "
            "{{node gradient_tape/MaxPoolGradGrad}}",
            "cannot compile f_16 of",
        ),
    ],
)
def test_what_changes_with_each_run_of_tensorflow_is_left_out(said: str, told: str) -> None:
    assert one_line(ValueError(said)) == f"ValueError: {told}"


def test_of_a_graph_the_words_of_the_operation_are_told() -> None:
    frames = "".join(f'  File "model.py", line {line}, in call\n' for line in range(60))
    frames += f'  File "{OURS}/engines/kit/modes.py", line 225, in passes\n\n'
    text = (
        f"Graph execution error:\n\nDetected at node inverse defined at\n{frames}\n"
        "Input is not invertible.\n\t [[{{node inverse}}]] [Op:__inference_f_17]"
    )
    failure = as_failure(RuntimeError(text))
    assert failure.message == "RuntimeError: Input is not invertible."
    assert len(failure.detail.splitlines()) <= 41
    assert "Input is not invertible." in failure.detail
    assert OURS not in failure.detail


def test_of_keras_the_words_of_the_layer_are_told() -> None:
    error = RuntimeError(
        "Exception encountered when calling Scale.call().\n\n\x1b[1mtoo deep\nby 3\x1b[0m\n\n"
        "Arguments received by Scale.call():\n  • x=tf.Tensor(shape=(2,), dtype=float32)"
    )
    failure = as_failure(error)
    assert failure.message == "RuntimeError: too deep"
    assert "too deep\nby 3\n" in failure.detail
    assert "Arguments received by Scale.call():" in failure.detail


def test_line_that_announces_another_is_told_with_it() -> None:
    error = RuntimeError("backend='inductor' raised:\nValueError: no C++ compiler\nSet TORCH_LOGS")
    assert one_line(error) == "RuntimeError: backend='inductor' raised: ValueError: no C++ compiler"
