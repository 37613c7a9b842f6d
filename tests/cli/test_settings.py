import json
from pathlib import Path
from typing import Any

import click
import pytest

from gradcheck_cli.cli.app import app
from gradcheck_cli.cli.run import command
from gradcheck_cli.cli.settings import DTYPES, SETTINGS, Settings
from gradcheck_cli.domain.dtypes import COMPLEX, FORMATS

from .calling import call_here


def settings(*arguments: str, configuration: dict[str, Any] | None = None) -> Settings:
    # within the app, as click keeps the names of the help option of a command's first context
    context = command.make_context("run", ["a.yaml", *arguments], **app.context_settings)
    return Settings(context, configuration or {})


@pytest.fixture(autouse=True)
def no_settings_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (name for setting in SETTINGS for name in setting.variables):
        monkeypatch.delenv(variable, raising=False)


def test_the_dtypes_are_those_of_the_domain() -> None:
    assert set(DTYPES) == {*FORMATS, *COMPLEX}


def test_lists_may_be_repeated_and_have_commas() -> None:
    options = settings("--engine", "torch,reference", "--engine", "tensorflow").run_options()
    assert options.engines.resolve(None, ()) == ("torch", "reference", "tensorflow")


VALUES = {
    "engine": ("torch", ("torch",)),
    "dtype": ("float16,float32", ("float16", "float32")),
    "mode": ("forward", ("forward",)),
    "select": ("GC2,wrong-gradient", ("GC2", "GC101")),
    "ignore": ("gc401", ("GC401",)),
    "baseline": ("known.json", "known.json"),
    "write-baseline": ("known.json", "known.json"),
    "format": ("json", "json"),
    "output": ("out.txt", "out.txt"),
    "report": ("json=a.json", ("json=a.json",)),
    "seed": ("7", 7),
    "changed-since": ("main", "main"),
    "jobs": ("2", 2),
    "cluster": ("tcp://head:8786", "tcp://head:8786"),
    "resume": ("journal", "journal"),
    "shard": ("2/5", "2/5"),
    "fail-fast": ("1", True),
    "fail-on": ("warning", "warning"),
    "exit-zero": ("true", True),
    "timeout": ("2.5", 2.5),
    "difference-scheme": ("forward", "forward"),
    "difference-step": ("1e-3", 1e-3),
    "memory": ("0.5", 0.5),
    "no-cache": ("1", True),
    "no-user-code": ("1", True),
    "search": ("2.5", 2.5),
    "power": ("0.99", 0.99),
    "device": ("cuda:1", "cuda:1"),
    "color": ("never", "never"),
    "quiet": ("1", True),
    "verbose": ("yes", True),
    "engine-output": ("1", True),
    "repro": ("scripts", "scripts"),
}


def test_the_table_of_this_test_is_complete() -> None:
    assert set(VALUES) == {setting.name for setting in SETTINGS}


@pytest.mark.parametrize("name", sorted(VALUES))
def test_every_setting_has_a_flag_a_variable_and_a_key(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (setting,) = [one for one in SETTINGS if one.name == name]
    text, value = VALUES[name]
    flag = (f"--{name}",) if setting.switch else (f"--{name}", text)
    assert settings(*flag).value(name) == value
    assert settings(configuration={name: value}).value(name) == value
    for variable in setting.variables:
        with monkeypatch.context() as patch:
            patch.setenv(variable, text)
            assert settings().value(name) == value


def test_command_line_beats_environment_beats_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    configured = {"seed": 1}
    assert settings(configuration=configured).value("seed") == 1
    monkeypatch.setenv("GRADCHECK_SEED", "2")
    assert settings(configuration=configured).value("seed") == 2
    assert settings("--seed", "3", configuration=configured).value("seed") == 3


def test_a_switch_of_the_configuration_can_be_turned_off() -> None:
    configured = {"exit-zero": True, "fail-fast": True}
    chosen = settings("--no-exit-zero", "--no-fail-fast", configuration=configured)
    assert chosen.value("exit-zero") is False
    assert chosen.run_options().fail_fast is False


def test_verbose_on_the_command_line_beats_quiet_elsewhere() -> None:
    assert settings("-v", configuration={"quiet": True}).verbosity() == (False, True)
    assert settings("-q", configuration={"verbose": True}).verbosity() == (True, False)
    with pytest.raises(click.UsageError):
        settings("-q", "-v").verbosity()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--dtype", "flaot32"), "Did you mean `float32`?"),
        (("--mode", "revers"), "Did you mean `reverse`?"),
        (("--select", "GC9999"), "no finding code begins with"),
        (("--ignore", "nan-gradent"), "Did you mean `nan-gradient`?"),
        (("--timeout", "0"), "0"),
        (("--jobs", "0"), "0"),
    ],
)
def test_values_that_are_refused(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        settings(*arguments)
    assert words in caught.value.format_message()


def test_the_spec_stands_between_environment_and_configuration(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.gradcheck]\ndtype = "float16"\n', "utf-8")
    (tmp_path / "free.yaml").write_text("inputs: {x: 2}\nmodel: x ** 2\n", "utf-8")
    (tmp_path / "says.yaml").write_text(
        "inputs: {x: 2}\nmodel: x ** 2\ndtypes: [float64]\n", "utf-8"
    )

    def dtypes(file: str, *arguments: str, **env: str) -> set[str]:
        words = ("run", file, "--engine", "reference", "--format", "json", *arguments)
        screen = call_here(*words, cwd=tmp_path, env=env)
        checks = json.loads(screen.out)["results"][0]["checks"]
        return {check["dtype"] for check in checks}

    assert dtypes("free.yaml") == {"float16"}
    assert dtypes("says.yaml") == {"float64"}
    assert dtypes("says.yaml", GRADCHECK_DTYPE="float32") == {"float32"}
    assert dtypes("says.yaml", "--dtype", "bfloat16", GRADCHECK_DTYPE="float32") == {"bfloat16"}
