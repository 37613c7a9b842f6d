from gradcheck_cli.report.ops import Support, facts, list_lines, page_lines
from gradcheck_cli.report.style import Style
from reference_engine.op import TABLE, Op, find

NONE: dict[str, Support] = {}


def test_every_row_is_listed() -> None:
    text = "\n".join(line.plain for line in list_lines(TABLE.values(), NONE, Style(width=120)))
    for name in TABLE:
        assert f"  {name}(" in text


def test_a_page_says_what_happens_at_kinks() -> None:
    op = find("relu")
    assert op is not None
    labels = [line.plain.split()[0] for line in page_lines(op, NONE, Style(width=120))[1:]]
    assert {"value", "derivative", "domain", "kink", "source"} <= set(labels)


def test_a_page_says_which_engine_lacks_the_row_and_why() -> None:
    op = find("exp")
    assert isinstance(op, Op)
    engines = {
        "one": Support(frozenset({"exp"}), {}),
        "two": Support(frozenset(), {"exp": "it was forgotten"}),
    }
    found = dict(facts(op, engines))
    assert found["engines"] == "one"
    assert found["two"] == "none: it was forgotten"
    engines["two"] = engines["one"]
    assert dict(facts(op, engines))["engines"] == "all"


def test_a_page_says_in_what_an_engine_falls_short_of_the_row() -> None:
    op = find("lgamma")
    assert isinstance(op, Op)
    engines = {"one": Support(frozenset({"lgamma"}), {"lgamma": "only 9 digits are right"})}
    found = dict(facts(op, engines))
    assert (found["engines"], found["one"]) == ("all", "only 9 digits are right")
