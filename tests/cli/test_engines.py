import json
from pathlib import Path

from .calling import call
from .test_run import _without_tensorflow


def test_the_engines_and_what_they_can_do(tmp_path: Path) -> None:
    screen = call("engines", cwd=tmp_path)
    assert screen.code == 0
    header, *rows = screen.out.splitlines()
    assert header.split() == ["engine", "version", "modes", "orders", "dtypes", "devices"]
    names = [row.split()[0] for row in rows if row and not row.startswith(" ")]
    assert names[:3] == ["reference", "torch", "tensorflow"]


def test_what_is_missing_comes_with_its_install_line(tmp_path: Path) -> None:
    env = {"PYTHONPATH": _without_tensorflow(tmp_path / "site")}
    lines = call("engines", cwd=tmp_path, env=env).out.splitlines()
    at = lines.index("tensorflow is not installed")
    assert lines[at + 1] == "  install  pip install 'gradcheck-cli[tensorflow]'"
    text = call("engines", "--format", "json", cwd=tmp_path, env=env).out
    told = {engine["name"]: engine for engine in json.loads(text)["engines"]}
    assert told["tensorflow"]["installed"] is False
    assert told["tensorflow"]["missing"] == [
        {"what": "`tensorflow`", "install": "pip install 'gradcheck-cli[tensorflow]'"}
    ]
    assert told["torch"]["installed"] is True
    assert told["torch"]["missing"] == []
    assert told["torch"]["modes"] == ["reverse", "forward"]
