"""Regions on each engine, whose edges are compared with every number around them."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.checks.protocol import drive
from gradcheck_cli.domain.search import KINDS
from gradcheck_cli.engines.base import make
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.search.box import to_ordinals
from gradcheck_cli.search.searching import Searching
from tests.every import first
from tests.search.searched import answer_of, domain_in, spec_of

_NEAR = 2000  # numbers on both sides of an edge


@pytest.mark.parametrize("name", first(2, ["reference", "torch", "jax", "tensorflow"]))
def test_all_edges_of_a_reciprocal_are_exact(name: str) -> None:
    """1 / exp(x) fails in four kinds, where exp(x) overflows, or its square, or the reciprocal of
    either is lost."""
    if name != "reference":
        pytest.importorskip(name)
    engine = make(engines()[name].target)
    engine.load()
    spec = spec_of("{x: {value: 1, domain: [-100, 100]}}", "1 / exp(x)")
    domain = domain_in(spec)
    searching = Searching(spec, name, domain, KINDS, 10.0, 0)
    searches = drive(searching.steps(), lambda ask: answer_of(ask.question, engine))
    found = {one.kind: one.region for one in searches if one.verdict == "found"}
    assert len(found) == 4
    assert {one.verdict for one in searches} == {"found", "proven-absent"}
    for kind, region in found.items():
        assert not region.open
        boxes = [[float(end) for end in box["x"]] for box in region.boxes or ()]
        low, high = to_ordinals(np.array([boxes[0][0], boxes[-1][1]]), domain.format)
        around = np.arange(-_NEAR, _NEAR)[:, None]
        points = domain.inside(np.concatenate([low + around, high + around]))
        fails = drive(
            searching._fails(points, [kind]), lambda ask: answer_of(ask.question, engine)
        )[kind]
        assert points[fails].min() == low, kind
        assert points[fails].max() == high, kind
