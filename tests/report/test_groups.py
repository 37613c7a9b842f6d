from dataclasses import replace

from gradcheck_cli.report.groups import described, detail_of, grouped

from .samples import nan_finding


def test_engines_and_modes_with_the_same_cause_are_told_once() -> None:
    findings = [nan_finding(e, m) for e in ("torch", "tensorflow") for m in ("reverse", "forward")]
    (group,) = grouped(findings)
    assert list(group) == findings
    assert described(group) == "torch, tensorflow float32 reverse, forward"


def test_another_cause_is_another_group() -> None:
    one = nan_finding("torch")
    assert one.cause is not None
    other = replace(nan_finding("tensorflow"), cause=replace(one.cause, op="divide"))
    assert grouped([one, other]) == [(one,), (other,)]


def test_modes_with_other_words_for_one_cause_stay_together() -> None:
    one, other = nan_finding("torch"), nan_finding("torch", "forward")
    assert one.cause is not None
    other = replace(other, cause=replace(one.cause, phase="backward", detail="becomes nan"))
    assert grouped([one, other]) == [(one, other)]


def test_dtypes_with_other_words_are_told_apart() -> None:
    one = nan_finding("torch")
    assert one.cause is not None
    other = replace(one, dtype="float16", cause=replace(one.cause, detail="overflows float16"))
    assert grouped([one, other]) == [(one,), (other,)]


def test_notes_on_one_operation_are_told_once_for_all_inputs() -> None:
    one = replace(nan_finding("torch"), severity="note")
    other = replace(one, input="another")
    assert grouped([one, other]) == [(one, other)]
    wrong = replace(one, severity="error")
    assert len(grouped([wrong, replace(other, severity="error")])) == 2
    assert len(grouped([replace(one, cause=None), replace(other, cause=None)])) == 2


def test_derivatives_that_do_not_exist_are_told_once_for_all_inputs() -> None:
    one = replace(nan_finding("torch"), code="GC402", cause=None, entries=())
    group = [replace(one, input=name, message=f"`{name}`: no derivative") for name in ("q", "k")]
    assert grouped(group) == [tuple(group)]
    assert detail_of(group) == "`q`, `k`: no derivative"


def test_without_entries_the_message_has_to_agree() -> None:
    one = replace(nan_finding("torch"), entries=(), message="RuntimeError: no")
    other = replace(nan_finding("tensorflow"), entries=(), message="ValueError: never")
    assert len(grouped([one, other])) == 2


def test_what_all_have_in_common_goes_without_saying() -> None:
    group = [nan_finding("torch"), nan_finding("torch", "forward")]
    assert described(group[:1], among=group) == "reverse"


def test_what_is_no_product_is_told_in_parts() -> None:
    findings = [
        nan_finding("torch", "reverse"),
        nan_finding("tensorflow", "reverse"),
        nan_finding("tensorflow", "forward"),
        replace(nan_finding("torch", "reverse"), dtype="float16"),
    ]
    assert described(findings) == (
        "torch float32, float16 reverse; tensorflow float32 reverse, forward"
    )


def test_one_detached_path_is_told_once_for_all_parameters_behind_it() -> None:
    one = nan_finding("torch")
    assert one.cause is not None
    words = "the derivative by `{}` stops here: `detach()` detaches a value"
    cut = [
        replace(
            one,
            code="GC102",
            input=name,
            entries=(),
            message=f"the gradient of `{name}` is missing",
            cause=replace(one.cause, kind="detached path", detail=words.format(name)),
        )
        for name in ("weight", "bias")
    ]
    assert grouped(cut) == [tuple(cut)]
    assert detail_of(cut) == words.format("weight`, `bias")
    assert detail_of(cut[:1]) == words.format("weight")
    wrong = [replace(finding, code="GC101", entries=one.entries) for finding in cut]
    assert len(grouped(wrong)) == 2, "each has numbers of its own"
