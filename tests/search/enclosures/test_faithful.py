import re

import numpy as np
import pytest

from gradcheck_cli.engines.errors import NodeFault
from gradcheck_cli.engines.jax.ops import TABLE as JAX
from gradcheck_cli.engines.kit.gradient_program import engine_program
from gradcheck_cli.engines.kit.lowerings import had
from gradcheck_cli.search.enclosures.faithful import of_one_dtype, recorded_in, unfaithful
from gradcheck_cli.search.runs import Runner
from reference_engine.op import REQUIRED, TABLE
from tests.search.searched import domain_in, spec_of

SOME = spec_of("{x: 1.0}", "exp(x)").program


def test_an_engine_whose_kernels_are_not_known_proves_nothing() -> None:
    assert unfaithful(SOME, "eigen") == "how eigen rounds is not known"


def test_the_first_kernel_that_is_not_known_is_named() -> None:
    assert unfaithful(SOME, "torch") == "how `exp(x)` rounds is not known"


def test_rows_are_what_the_reference_engine_computes() -> None:
    assert unfaithful(SOME, "reference") == ""


NUMBERS = sorted(
    name
    for name, row in TABLE.items()
    if row.elementwise and row.arity == 1 and name != "logical_not" and name in had(JAX)
)


@pytest.mark.parametrize("name", [*NUMBERS, "logaddexp", "hypot", "betaln", "xlog1py", "power"])
def test_what_jax_computes_in_float32_is_what_is_recorded_in_float64(name: str) -> None:
    """The same primitives, with constants that are rounded; or it is recorded in float32."""
    jax = pytest.importorskip("jax")
    from gradcheck_cli.engines.jax.engine import JaxEngine

    more = "" if name in NUMBERS else ", x + 1"
    more = ", n=1" if TABLE[name].keywords.get("n") is REQUIRED else more
    spec = spec_of("{x: {value: 0.4, domain: [0.1, 0.9]}}", f"{name}(x{more})")
    engine = JaxEngine()
    engine.load()
    problem = Runner("jax", spec.program, domain_in(spec), ("x",)).full_problem(
        domain_in(spec).start
    )
    _, prepared = engine.prepared(problem)
    texts = []
    with jax.enable_x64(True):
        for dtype in (np.float32, np.float64):
            try:
                traced = jax.make_jaxpr(lambda x: prepared.run([x])[prepared.program.output])(
                    dtype(0.4)
                )
            except NodeFault:
                pytest.skip("JAX traces it in one dtype alone")
            constants = [np.float32(x).tolist() for x in traced.consts]
            text = re.sub(r"\bf(loat)?(32|64)\b", "F", f"{traced.jaxpr} {constants}")
            number = r"-?\d+\.\d+(e-?\d+)?"
            texts.append(re.sub(number, lambda found: str(np.float32(found[0])), text))
    same = recorded_in(spec.program, "jax", "float32") == "float64"
    assert same == (not of_one_dtype(spec.program, "jax", "bfloat16"))
    assert (texts[0].split() == texts[1].split()) == same
    for dtype in ("float32", "float64"):
        assert not of_one_dtype(spec.program, "jax", dtype)


@pytest.mark.parametrize("count", [1, 2, 4, 5])
def test_arrays_without_elements_choose_nothing(count: int) -> None:
    """JAX's derivative of a running maximum has some."""
    pytest.importorskip("jax")
    from gradcheck_cli.engines.jax.engine import JaxEngine

    values = f"{{value: {[1.0] * count}, domain: [0.5, 2]}}"
    spec = spec_of(f"{{x: {values}}}", "sum(cummax(x, axis=0))")
    engine = JaxEngine()
    engine.load()
    problem = Runner("jax", spec.program, domain_in(spec), ("x",)).full_problem(
        domain_in(spec).start
    )
    found = engine_program(engine, problem)
    assert found.reason == ""
    assert not unfaithful(found.program, "jax")
