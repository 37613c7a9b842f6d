"""From a target to what the user wrote."""

from pathlib import Path

import pytest

from gradcheck_cli.domain.layer import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.engines.callables.loading import NoSuchLayer, load_layer

LAYERS = """
class Scale:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return self.by * x


def tripled():
    return Scale(3)


def doubled(x):
    return 2 * x
"""


def target(tmp_path: Path, name: str) -> Implementation:
    (tmp_path / "layers.py").write_text(LAYERS)
    return Implementation("numpy", f"layers.py:{name}", str(tmp_path), Span(1, 1, 1, 2))


def test_a_function_without_parameters_builds_the_layer(tmp_path: Path) -> None:
    assert load_layer(target(tmp_path, "tripled"))(5) == 15
    assert load_layer(target(tmp_path, "doubled"))(5) == 10


def test_what_is_not_there_is_named_with_what_was_meant(tmp_path: Path) -> None:
    with pytest.raises(NoSuchLayer, match="has no `triple`; did you mean `tripled`"):
        load_layer(target(tmp_path, "triple"))
