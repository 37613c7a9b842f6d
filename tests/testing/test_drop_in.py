import subprocess
import sys
import warnings

import pytest

import gradcheck_cli
from gradcheck_cli.testing import drop_in

FILTER = """
import warnings
warnings.filterwarnings("error")
warnings.filterwarnings("ignore", category=__import__("gradcheck_cli").IgnoredArgumentWarning)
from gradcheck_cli.testing.drop_in import warn_once
warn_once({"eps": True}, {"eps": "steps"})
import sys
print("numpy" in sys.modules)
"""


def test_an_argument_is_warned_of_where_it_is_given_and_once(monkeypatch, recwarn) -> None:
    monkeypatch.setattr(drop_in, "_warned", set())
    why = {"eps": drop_in.NO_STEP, "masked": "inputs are dense"}
    drop_in.warn_once({"eps": True, "masked": None}, why)
    drop_in.warn_once({"eps": 1e-3, "masked": False}, why)
    words = [str(one.message) for one in recwarn]
    assert words == [f"`eps` is ignored by gradcheck: {drop_in.NO_STEP}"]


def test_where_warnings_are_errors_each_call_raises_and_our_own_can_be_left_out(
    monkeypatch,
) -> None:
    monkeypatch.setattr(drop_in, "_warned", set())
    given = {"eps": 1e-3}, {"eps": drop_in.NO_STEP}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(gradcheck_cli.IgnoredArgumentWarning):
                drop_in.warn_once(*given)
        warnings.simplefilter("ignore", gradcheck_cli.IgnoredArgumentWarning)
        drop_in.warn_once(*given)


def test_a_filter_may_name_our_warning_before_anything_slow_is_imported() -> None:
    ran = subprocess.run([sys.executable, "-c", FILTER], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
