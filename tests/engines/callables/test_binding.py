"""Inputs by name become the arguments of a call."""

from gradcheck_cli.engines.callables.binding import arrange, joined


def test_parts_of_one_argument_are_put_together() -> None:
    arrays = {"x": 1, "state[0]": 2, "state[1]['c']": 3, "options['h n']": 4}
    assert joined(arrays) == {"x": 1, "state": (2, {"c": 3}), "options": {"h n": 4}}


def test_a_tuple_goes_to_its_parameter() -> None:
    def layer(x, axis, state=None):
        return x

    call = arrange(layer, ["x", "state[0]", "state[1]"], [7])
    assert call({"x": 1, "state[0]": 2, "state[1]": 3}) == ([1, 7, (2, 3)], {})
