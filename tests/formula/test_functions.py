from __future__ import annotations

import pytest

from gradcheck_cli.domain.program import CUSTOM, CustomGradient, Node

from .writing import helps, mistakes, ops, output, program

CUSTOM_EXP = """\
def rule(upstream, a):
    return -upstream * exp(-a)

@custom_gradient(rule)
def reciprocal(a):
    return 1 / exp(a)

reciprocal(s) * reciprocal(x)
"""


def custom(text: str) -> tuple[Node, CustomGradient]:
    """The only node with a stated gradient."""
    (node,) = (node for node in program(text).nodes if node.op == CUSTOM)
    assert node.custom is not None
    return node, node.custom


def test_a_function_is_put_in_place_of_its_call() -> None:
    text = "def f(a, b):\n    c = a * b\n    return sin(c)\nf(s, 2) + f(v, b=s)"
    assert ops(text) == ["constant", "multiply", "sin", "multiply", "sin", "add"]


def test_a_parameter_may_be_a_number_known_before_the_run() -> None:
    text = "def f(a, n=2):\n    for i in range(n):\n        a = a * a\n    return a\nf(s) + f(s, 3)"
    assert ops(text).count("multiply") == 5


def test_nodes_of_a_function_stand_in_its_text() -> None:
    built = program("def f(a):\n    return sin(a)\ny = f(s)")
    assert (built.result.span.line, built.result.name) == (2, "y")


def test_a_function_of_the_formula_hides_an_operation() -> None:
    assert ops("def sigmoid(a):\n    return exp(a)\nsigmoid(s)") == ["exp"]


def test_a_docstring_is_no_statement() -> None:
    assert ops('def f(a):\n    """Half."""\n    return exp(a)\nf(s)') == ["exp"]


def test_a_function_sees_its_parameters_constants_and_earlier_functions_only() -> None:
    assert mistakes(
        "def f(a):\n    return a @ W + g(a) + pi + k\ndef g(a):\n    return a\nf(x)", k=2
    ) == [
        "GC905 2:16-17 `W` is not visible inside a function",
        "GC905 2:20-21 `g` is not defined yet at this point",
    ]


def test_recursion_is_refused() -> None:
    assert mistakes("def f(a):\n    return f(a)\nf(s)") == ["GC904 2:12-13 `f` calls itself"]


def test_a_mistake_inside_a_function_says_where_it_was_called() -> None:
    text = "def f(a):\n    return a @ a\nf(x)"
    assert mistakes(text) == [
        "GC906 2:12-17 a @ a: (3, 2) @ (3, 2): the inner sizes 2 and 3 differ"
    ]
    assert helps(text) == ["`f` is called on line 3"]


def test_a_function_that_is_never_called_is_checked_all_the_same() -> None:
    assert mistakes("def f(a):\n    return sun(a) + zz\ns") == [
        "GC905 2:12-15 unknown operation `sun`",
        "GC905 2:21-23 unknown name `zz`",
    ]


def test_calls_that_do_not_fit_the_parameters() -> None:
    text = "def f(a, b):\n    return a\nf(s) + f(s, s, s) + f(s, c=s) + f(s, s, a=s)"
    assert mistakes(text) == [
        "GC904 3:1-5 `f` needs b",
        "GC904 3:8-18 `f` takes 2 arguments, not 3",
        "GC904 3:26-29 `f` has no `c`",
        "GC904 3:41-44 `a` is given twice",
    ]


def test_what_a_function_may_not_be() -> None:
    assert mistakes("def f(*a):\n    return 1\ns") == [
        "GC904 1:1-11 parameters are plain names: def f(x, y):"
    ]
    assert mistakes("def f(a, a, a=2):\n    return a\nf(s, s)") == [
        "GC904 1:10-11 `f` has two parameters named `a`",
        "GC904 1:13-14 `f` has two parameters named `a`",
    ]
    assert mistakes("def f(a):\n    b = a\nf(s)") == [
        "GC904 2:5-10 `f` does not end with `return value`"
    ]
    assert mistakes("def f(a):\n    def g(b):\n        return b\n    return a\nf(s)") == [
        "GC904 2:5-14 a function cannot be defined inside another"
    ]
    assert mistakes("@jit\ndef f(a):\n    return a\nf(s)")[0] == (
        "GC904 1:2-5 the only decorator is custom_gradient"
    )


TWO = "def f(a):\n    return 2 * a, sin(a)\n"


def test_a_function_may_return_several_values() -> None:
    assert ops(f"{TWO}u, w = f(x)\nu - w")[-1] == "subtract"
    assert output(f"{TWO}f(x)[1]").op == "sin"
    assert output("def f(a, k):\n    return a, k + 1\ny, n = f(s, 2)\ny ** n").op == "power"
    in_turn = f"{TWO}def g(a):\n    u, w = f(a)\n    return w, u\nu, w = g(x)\nw / u"
    assert ops(in_turn)[-1] == "divide"


def test_names_of_several_values_go_through_a_loop() -> None:
    text = "def step(a, b):\n    return b, a + b\na, b = s, s\n"
    assert ops(f"{text}for i in range(3):\n    a, b = step(a, b)\nb").count("add") == 3


@pytest.mark.parametrize(
    ("text", "told", "help"),
    [
        (
            "sum(f(x))",
            "GC904 3:5-9 this call returns several values where one is needed",
            "give each a name, a, b = f(x), or take one: f(x)[0]",
        ),
        (
            "f(x) * 2",
            "GC904 3:1-5 this call returns several values where one is needed",
            "give each a name, a, b = f(x), or take one: f(x)[0]",
        ),
        (
            "f(x)",
            "GC904 3:1-5 a formula has one output, but this call returns several values",
            "take one: f(x)[0]",
        ),
        ("a, b, c = f(x)\na", "GC906 3:1-15 2 values cannot be given to 3 names", ""),
        ("f(x)[2]", "GC906 3:1-8 the index 2 is outside a list of 2", ""),
    ],
)
def test_several_values_stand_where_several_are_wanted(text: str, told: str, help: str) -> None:
    assert mistakes(TWO + text) == [told]
    assert helps(TWO + text) == [help]


def test_a_mistake_in_one_of_several_values_is_told_once() -> None:
    assert mistakes("def f(a):\n    return a, sun(a)\nu, w = f(s)\nu + w") == [
        "GC905 2:15-18 unknown operation `sun`"
    ]


def test_a_function_with_a_stated_gradient_returns_one_value() -> None:
    text = "def r(u, a):\n    return u\n@custom_gradient(r)\ndef f(a):\n    return a, a\n"
    assert mistakes(text + "u, w = f(s)\nu + w") == ["GC904 5:5-16 `f` returns 2 values, not 1"]


def test_a_stated_gradient_makes_one_node_with_programs_of_its_own() -> None:
    built = program(CUSTOM_EXP)
    first, second = (node for node in built.nodes if node.op == CUSTOM)
    assert (first.shape, second.shape, first.text) == ((), (3, 2), "reciprocal(s)")
    assert first.custom is not None
    assert second.custom is not None
    forward, vjp = second.custom.forward, second.custom.vjp
    assert sorted(node.op for node in forward.nodes) == ["constant", "divide", "exp", "input"]
    assert list(forward.inputs) == ["a"]
    assert forward.result.span.line == 6
    assert list(vjp.inputs) == ["upstream", "a"]
    assert [vjp.nodes[i].shape for i in vjp.inputs.values()] == [(3, 2), (3, 2)]
    assert vjp.outputs == (len(vjp.nodes) - 1,)
    assert vjp.text.startswith("def rule(upstream, a):")
    assert second.custom.jvp is None


def test_a_rule_returns_one_gradient_for_each_argument_or_none() -> None:
    text = (
        "def r(u, a, b):\n    return u * b, None\n"
        "@custom_gradient(r)\ndef f(a, b):\n    return a * b\n"
    )
    _, rule = custom(text + "f(v, s)")
    assert (len(rule.vjp.outputs), rule.vjp.outputs[1]) == (2, None)
    assert mistakes(text.replace(", None", "") + "f(v, s)") == [
        "GC904 2:5-17 `r` returns 1 value, not 2, one for each argument"
    ]


def test_a_gradient_of_a_wrong_shape_is_the_users_bug_to_be_found_by_the_run() -> None:
    text = "def r(u, a):\n    return sum(u)\n@custom_gradient(r)\ndef f(a):\n    return sin(a)\n"
    _, rule = custom(text + "sum(f(v))")
    assert rule.vjp.result.shape == ()


def test_a_forward_rule_takes_tangents_and_then_arguments() -> None:
    text = (
        "def r(u, a, b):\n    return u * b, u * a\n"
        "def j(a_dot, b_dot, a, b):\n    return a_dot * b + a * b_dot\n"
        "@custom_gradient(r, jvp=j)\ndef f(a, b):\n    return a * b\nf(v, s)"
    )
    _, rule = custom(text)
    assert rule.jvp is not None
    assert [rule.jvp.nodes[i].shape for i in rule.jvp.inputs.values()] == [(2,), (), (2,), ()]


def test_numbers_are_arguments_like_others() -> None:
    text = (
        "def r(u, a, b):\n    return u, None\n@custom_gradient(r)\ndef f(a, b):\n    return a + b\n"
    )
    node, rule = custom(text + "f(s, 2)")
    assert len(node.args) == 2
    assert [n.kind for n in rule.forward.nodes[:2]] == ["float", "int"]


def test_decorators_with_mistakes() -> None:
    body = "def f(a):\n    return a\nf(s)"
    assert mistakes("@custom_gradient(rule)\n" + body) == [
        "GC905 1:18-22 there is no function `rule` before this line"
    ]
    assert helps("@custom_gradient(rule)\n" + body) == ["define it above: def rule(upstream, a):"]
    assert mistakes("@custom_gradient\n" + body) == [
        "GC904 1:2-17 custom_gradient needs the rule of its gradient"
    ]
    assert mistakes("def r(u):\n    return u\n@custom_gradient(r)\n" + body) == [
        "GC904 3:18-19 the rule `r` has 1 parameters, not 2"
    ]
    assert mistakes("def r(u, a):\n    return zz\n@custom_gradient(r)\n" + body) == [
        "GC905 2:12-14 unknown name `zz`"
    ]


def test_stop_gradient_is_an_operation() -> None:
    assert output("s * stop_gradient(s)").op == "multiply"
