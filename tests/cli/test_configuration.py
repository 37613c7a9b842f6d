from pathlib import Path

import pytest

from gradcheck_cli.cli.configuration import ConfigurationError, load_configuration

from .calling import assert_snapshot, call

SPEC = "inputs: {x: 2}\nmodel: x ** 2\n"


def configured(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text(text, "utf-8")
    return folder


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    configured(tmp_path, "[tool.gradcheck]\nseed = 1\n")
    assert load_configuration(inner) == {"seed": 1}
    configured(tmp_path / "a", "[tool.gradcheck]\nseed = 2\n")
    assert load_configuration(inner) == {"seed": 2}
    configured(inner, "[project]\n")
    assert load_configuration(inner) == {}


def test_lists_and_single_names(tmp_path: Path) -> None:
    text = '[tool.gradcheck]\nengine = "torch"\ndtype = ["float16", "float32"]\ntimeout = 3\n'
    assert load_configuration(configured(tmp_path, text)) == {
        "engine": ("torch",),
        "dtype": ("float16", "float32"),
        "timeout": 3.0,
    }


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("seeed = 1", "Did you mean `seed`?"),
        ('seed = "1"', "must be an integer"),
        ("seed = true", "must be an integer"),
        ("seed = -1", "-1"),
        ("fail-fast = 1", "must be true or false"),
        ("dtype = [1]", "a string or a list of strings"),
        ('dtype = ["float31"]', "Did you mean `float32`?"),
        ('fail-on = "eror"', "eror"),
        ("format = []", "must be one of"),
    ],
)
def test_what_is_refused_and_where(line: str, words: str, tmp_path: Path) -> None:
    configured(tmp_path, f"[project]\nseed = 1\n[tool.gradcheck]\n{line}\n")
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(tmp_path)
    (mistake,) = caught.value.mistakes
    assert words in mistake.message
    assert mistake.span is not None
    assert (mistake.span.line, mistake.span.column) == (4, 1)


def test_all_mistakes_are_shown_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(SPEC, "utf-8")
    configured(tmp_path, '[tool.gradcheck]\nenigne = "torch"\nseed = "zero"\n')
    assert_snapshot(call("run", "a.yaml", cwd=tmp_path), "configuration_mistakes")


def test_a_file_that_is_no_toml(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(SPEC, "utf-8")
    configured(tmp_path, "[tool.gradcheck\nseed = 1\n")
    assert_snapshot(call("run", "a.yaml", cwd=tmp_path), "configuration_no_toml")
