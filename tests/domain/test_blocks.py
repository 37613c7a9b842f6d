import pytest

from gradcheck_cli.domain.blocks import HessianBlock, blocks_in, hessian_blocks


def test_a_block_is_called_by_its_rows_and_columns() -> None:
    assert [str(block) for block in hessian_blocks(["x", "w"])] == ["x.x", "x.w", "w.x", "w.w"]


@pytest.mark.parametrize("inputs", [("x", "w"), ("layer.weight", "layer.bias"), ("a", "a.b")])
def test_a_name_says_which_block_it_is_where_inputs_have_dots_too(inputs: tuple[str, ...]) -> None:
    for block in hessian_blocks(inputs):
        assert HessianBlock.named(str(block), inputs) == block


@pytest.mark.parametrize("name", ["x", "x.y", "x.", ".x", "y.x"])
def test_other_names_are_no_blocks(name: str) -> None:
    with pytest.raises(KeyError):
        HessianBlock.named(name, ("x", "w"))


def test_a_block_is_of_its_rows_and_of_its_columns() -> None:
    assert HessianBlock.is_of("layer.weight.x", "layer.weight")
    assert HessianBlock.is_of("layer.weight.x", "x")
    assert not HessianBlock.is_of("layer.weight.x", "layer.w")


def test_forward_over_forward_pairs_many_inputs_with_themselves_and_the_next() -> None:
    assert len(blocks_in("forward-over-forward", "abcd")) == 16
    found = [str(block) for block in blocks_in("forward-over-forward", "abcde")]
    assert found == ["a.a", "a.b", "b.b", "b.c", "c.c", "c.d", "d.d", "d.e", "e.a", "e.e"]
    assert len(blocks_in("reverse-over-forward", "abcde")) == 25
