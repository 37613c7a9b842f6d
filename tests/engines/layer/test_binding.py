"""Inputs by name become the arguments of a call."""

from gradcheck_cli.engines.layer.binding import arrange, for_the_call, joined


def test_parts_of_one_argument_are_put_together() -> None:
    arrays = {"x": 1, "state[0]": 2, "state[1]['c']": 3, "options['h n']": 4}
    assert joined(arrays) == {"x": 1, "state": (2, {"c": 3}), "options": {"h n": 4}}


def test_a_tuple_goes_to_its_parameter() -> None:
    def layer(x, axis, state=None):
        return x

    call = arrange(layer, ["x", "state[0]", "state[1]"], [7])
    assert call({"x": 1, "state[0]": 2, "state[1]": 3}) == ([1, 7, (2, 3)], {})


def test_keyword_arguments_of_a_class_go_to_the_constructor_or_to_the_call() -> None:
    class Layer:
        def __init__(self, size, mode="a"):
            pass

        def forward(self, x, mask=None, mode="b", *, steps=1):
            pass

    mine, later = for_the_call(Layer, {"size": 3, "mode": "c", "mask": [[1, None]], "steps": 2})
    assert mine == {"size": 3, "mode": "c"}, "a name that both have is the constructor's"
    assert later == {"mask": [[1, None]], "steps": 2}
    assert for_the_call(Layer, {"wrong": 1})[0] == {"wrong": 1}, "which says so itself"
