import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.engines import SHIPPED
from gradcheck_cli.domain.evaluation import FIRST_ORDER
from gradcheck_cli.domain.synonyms import did_you_mean, nearest, synonym


@pytest.mark.parametrize(
    ("word", "choices", "name"),
    [
        ("tf", SHIPPED, "tensorflow"),
        ("PyTorch", SHIPPED, "torch"),
        ("fp32", FORMATS, "float32"),
        ("bf16", FORMATS, "bfloat16"),
        ("rev", FIRST_ORDER, "reverse"),
        ("fwd", FIRST_ORDER, "forward"),
    ],
)
def test_names_of_other_projects(word, choices, name) -> None:
    assert synonym(word, choices) == name


def test_a_synonym_is_one_of_the_choices_or_none() -> None:
    assert synonym("tf", FORMATS) is None
    assert synonym("float31", FORMATS) is None


@pytest.mark.parametrize(
    ("word", "choice"),
    [("modle", "model"), ("dytpes", "dtypes"), ("Model", "model"), ("zzz", None), (3, None)],
)
def test_the_nearest_word(word: object, choice: str | None) -> None:
    assert nearest(word, ["name", "modes", "model", "dtypes"]) == choice


def test_no_guess_is_no_text() -> None:
    assert did_you_mean("zzz", ["model"]) == ""
    assert did_you_mean("modle", ["model"]) == "did you mean `model`?"
