from pathlib import Path

from .calling import call_here


def test_each_setting_is_shown_with_what_sets_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.gradcheck]\nengines = ["torch"]\nfail-on = "warning"\nseed = 1\n', "utf-8"
    )
    env = {"GRADCHECK_ENGINES": "jax", "GRADCHECK_SEED": "2"}
    screen = call_here("config", "--seed", "3", "--dtype", "float16,float32", cwd=tmp_path, env=env)
    assert [line.split() for line in screen.out.splitlines()][:-1] == [
        ["setting", "value", "set", "by"],
        ["engine", "jax", "GRADCHECK_ENGINES"],
        ["dtype", "float16,float32", "--dtype"],
        ["seed", "3", "--seed"],
        ["fail-on", "warning", "pyproject.toml"],
        ["no-cache", "true", "GRADCHECK_NO_CACHE"],
    ]


def test_a_setting_that_another_overrules_is_not_in_force(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.gradcheck]\nexit-zero = true\n", "utf-8")
    assert "exit-zero" in call_here("config", cwd=tmp_path).out
    assert "exit-zero" not in call_here("config", "--fail-on", "error", cwd=tmp_path).out


def test_why_a_table_or_a_variable_sets_nothing(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.gradcheck]\nseed = 1\n", "utf-8")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").write_text("[project]\n", "utf-8")
    screen = call_here("config", cwd=inner, env={"GRADCHECK_FAILON": "warning", "GRADCHECK_X": "1"})
    assert "seed" not in screen.out
    assert screen.out.endswith(
        "pyproject.toml has no settings of gradcheck that apply\n"
        "the variable GRADCHECK_FAILON sets nothing. Did you mean `GRADCHECK_FAIL_ON`?\n"
    )
