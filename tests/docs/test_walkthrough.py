"""Pages that are played from the first block to the last show what is printed."""

import re
import tomllib
from pathlib import Path

import pytest

from docs.generate import WALKTHROUGHS
from docs.walkthrough import PageError, agrees, played

ROOT = Path(__file__).parents[2]
PAGE = """\
```yaml
# folder/spec.yaml
inputs: {x: 2}
```

```sh
mkdir made
```

```text
$ cat folder/spec.yaml
# folder/spec.yaml
...
$ ls
SHOWN
```
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", WALKTHROUGHS, ids=lambda path: path.stem)
def test_a_walkthrough_shows_what_is_printed(path: Path, tmp_path: Path) -> None:
    page = path.read_text("utf-8")
    assert played(page, tmp_path) == page, "run `python docs/generate.py --outputs`"


def test_the_screens_of_readme_show_what_is_printed(tmp_path: Path) -> None:
    """Without the commands whose output is not shown; none of them is for a later one."""
    page = re.sub(
        r"^```sh\n.*?^```\n", "", (ROOT / "README.md").read_text("utf-8"), flags=re.M | re.S
    )
    assert page.count("\n$ ") + page.count("```text\n$ ") >= 7
    assert played(page, tmp_path) == page, "run `python docs/generate.py --outputs`"


@pytest.mark.parametrize("path", WALKTHROUGHS, ids=lambda path: path.stem)
def test_what_is_left_to_the_reader_exists(path: Path) -> None:
    page = path.read_text("utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M)
    for name, brackets in re.findall(r"pip install '?([\w-]+)(?:\[(.*?)\])?", page):
        assert name == extras["name"]
        assert set(filter(None, brackets.split(","))) <= set(extras["optional-dependencies"])
    for target in re.findall(r"^make ([\w-]+)", page, re.M):
        assert target in targets


def test_readme_has_the_two_commands_of_a_clone() -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert [line.split("#")[0].strip() for line in lines if line.startswith("make ")] == [
        "make demo",
        "make test",
    ]


def test_links_of_readme_lead_to_files() -> None:
    for link in re.findall(r"\]\(([^)#]+)", (ROOT / "README.md").read_text("utf-8")):
        assert link.startswith("https://") or (ROOT / link).is_file(), link


def test_readme_on_a_package_index_has_no_links_to_files() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    hook = project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    shown = (ROOT / hook["fragments"][0]["path"]).read_text("utf-8")
    for one in hook["substitutions"]:
        shown = re.sub(one["pattern"], one["replacement"], shown)
    assert re.findall(r"\]\((?!https://)", shown) == []
    assert "[Arb](https://arblib.org)" in shown
    assert "a layer has your rights\n  (isolation)" in shown


def test_files_are_written_and_commands_run(tmp_path: Path) -> None:
    page = played(PAGE, tmp_path)
    assert page == PAGE.replace("SHOWN", "folder\nmade")
    assert (tmp_path / "folder" / "spec.yaml").read_text() == "# folder/spec.yaml\ninputs: {x: 2}\n"


def test_a_block_that_cannot_be_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="first line"):
        played("```python\nprint(1)\n```\n", tmp_path)


def test_a_command_that_cannot_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="exit code 2"):
        played("```sh\nls absent\n```\n", tmp_path)


@pytest.mark.parametrize(
    ("shown", "same"),
    [
        ("a 1\nb\nc\n", True),
        ("a  7.5e-3\n...\nc", True),
        ("...\nc", True),
        ("a 1\n...", True),
        ("...\nb", False),
        ("b\n...", False),
        ("a\n...\nb\n...\nb\n...", False),
        ("a 1\nc", False),
    ],
)
def test_dots_stand_for_lines_that_are_left_out(shown: str, same: bool) -> None:
    assert agrees(shown, "a 2\nb\nc\n") is same


def test_a_slow_machine_prints_the_same_words() -> None:
    assert agrees("3 passed in 4.87s", "3 passed in 68.98s (0:01:08)")
    assert not agrees("3 passed in 4.87s", "3 passed in 68.98s (slow)")
