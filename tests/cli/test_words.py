from gradcheck_cli.cli.words import counted, did_you_mean


def test_a_suggestion_is_a_sentence_or_nothing() -> None:
    assert did_you_mean("trch", ["torch"]) == " Did you mean `torch`?"
    assert did_you_mean("xyz", ["torch"]) == ""


def test_one_and_many() -> None:
    assert counted(1, "mistake") == "1 mistake"
    assert counted(2, "mistake") == "2 mistakes"
    assert counted(2, "entry", "entries") == "2 entries"
