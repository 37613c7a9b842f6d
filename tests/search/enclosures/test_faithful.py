from gradcheck_cli.search.enclosures.faithful import unfaithful
from tests.search.searched import spec_of

SOME = spec_of("{x: 1.0}", "exp(x)").program


def test_an_engine_whose_kernels_are_not_known_proves_nothing() -> None:
    assert unfaithful(SOME, "eigen") == "how eigen rounds is not known"


def test_the_first_kernel_that_is_not_known_is_named() -> None:
    assert unfaithful(SOME, "torch") == "how `exp(x)` rounds is not known"


def test_rows_are_what_the_reference_engine_computes() -> None:
    assert unfaithful(SOME, "reference") == ""
