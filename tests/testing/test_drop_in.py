from gradcheck_cli.testing import drop_in


def test_an_argument_is_warned_of_where_it_is_given_and_once(monkeypatch, recwarn) -> None:
    monkeypatch.setattr(drop_in, "_warned", set())
    why = {"eps": drop_in.NO_STEP, "masked": "inputs are dense"}
    drop_in.warn_once({"eps": True, "masked": None}, why)
    drop_in.warn_once({"eps": 1e-3, "masked": False}, why)
    words = [str(one.message) for one in recwarn]
    assert words == [f"`eps` is ignored by gradcheck: {drop_in.NO_STEP}"]
