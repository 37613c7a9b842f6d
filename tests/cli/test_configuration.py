from pathlib import Path

import pytest

from gradcheck_cli.cli.configuration import ConfigurationError, load_configuration

from .calling import assert_snapshot, call_here

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


def test_a_setting_has_the_noun_of_specs_or_of_its_flag(tmp_path: Path) -> None:
    configured(tmp_path, '[tool.gradcheck]\nengines = ["torch"]\ndtypes = "float16"\n')
    assert load_configuration(tmp_path) == {"engine": ("torch",), "dtype": ("float16",)}


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
        ('dtypes = "fp32"', "Did you mean `float32`?"),
        ('mode = "fwd"', "Did you mean `forward`?"),
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
    assert_snapshot(call_here("run", "a.yaml", cwd=tmp_path), "configuration_mistakes")


def test_a_file_that_is_no_toml(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(SPEC, "utf-8")
    configured(tmp_path, "[tool.gradcheck\nseed = 1\n")
    assert_snapshot(call_here("run", "a.yaml", cwd=tmp_path), "configuration_no_toml")


@pytest.mark.parametrize(
    "line", ['output = "../out.txt"', 'report = ["json=in.json", "json=/tmp/out.json"]']
)
def test_a_configuration_names_no_file_outside_of_its_folder(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(configured(project, f"[tool.gradcheck]\n{line}\n"))
    with pytest.raises(ConfigurationError) as caught:
        load_configuration()
    (mistake,) = caught.value.mistakes
    assert f"outside {project}" in mistake.message


def test_a_link_leads_out_of_the_folder_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "link").symlink_to(tmp_path)
    text = '[tool.gradcheck]\noutput = "link/out.txt"\n'
    monkeypatch.chdir(configured(project, text))
    with pytest.raises(ConfigurationError):
        load_configuration()
    (project / "link").unlink()
    assert load_configuration() == {"output": "link/out.txt"}


STRANGERS = '[tool.gradcheck]\nexit-zero = true\nignore = ["GC"]\nreport = "json=r.json"\n'


@pytest.mark.parametrize("gate", ["--no-user-code", "--select=GC1"])
def test_a_configuration_does_not_loosen_a_gate_that_the_call_sets(
    gate: str, tmp_path: Path
) -> None:
    configured(tmp_path, STRANGERS)
    wrong = "def double(g, a): return g\n@custom_gradient(double)\ndef f(a): return 2 * a\nf(x)"
    text = "inputs: {x: 1}\nmodel: |\n" + "".join(f"  {line}\n" for line in wrong.split("\n"))
    (tmp_path / "wrong.yaml").write_text(text)
    arguments = ("run", "wrong.yaml", "--engine", "reference")
    assert call_here(*arguments, cwd=tmp_path).code == 0
    assert (tmp_path / "r.json").exists()
    (tmp_path / "r.json").unlink()
    assert call_here(*arguments, gate, cwd=tmp_path).code == 1
    assert (tmp_path / "r.json").exists() is (gate != "--no-user-code")


def test_brackets_without_end(tmp_path: Path) -> None:
    configured(tmp_path, f"[tool.gradcheck]\nengine = {'[' * 5000}{']' * 5000}\n")
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(tmp_path)
    assert "nested too deep" in caught.value.mistakes[0].message


def test_a_working_folder_that_was_deleted_has_no_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert load_configuration() == {}
    monkeypatch.chdir(tmp_path)


def test_a_setting_that_is_stated_under_both_names(tmp_path: Path) -> None:
    configured(tmp_path, '[tool.gradcheck]\nengines = "jax"\nengine = "torch"\n')
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(tmp_path)
    assert "`engines` is set twice" in caught.value.mistakes[0].message
