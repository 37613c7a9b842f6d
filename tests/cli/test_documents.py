"""The generated documents are up to date, and the examples of the code pages raise their codes."""

import json
import re
from pathlib import Path

import pytest

from docs import generate, walkthrough
from gradcheck_cli.domain.codes import CODES
from gradcheck_cli.report.pages import page

from .calling import call_here

EXAMPLES = {code: generate.EXAMPLE.search(page(row)) for code, row in CODES.items()}
QUICK = ("GC103", "GC501", "GC901", "GC903")  # whose examples need no framework


def test_documents_are_up_to_date() -> None:
    stale = [
        str(path)
        for path, text in generate.documents().items()
        if not path.is_file() or path.read_text("utf-8") != text
    ]
    assert stale == [], "run `make docs`"


@pytest.mark.exhaustive
def test_the_examples_of_the_pages_raise_their_codes(tmp_path: Path) -> None:
    texts = {
        c: found for c, found in EXAMPLES.items() if found and " example.yaml" in found["output"]
    }
    assert len(texts) >= 20
    for code, found in texts.items():
        generate.put_example(found, tmp_path / code)
        with (tmp_path / code / "example.yaml").open("a", encoding="utf-8") as file:
            file.write(as_keys(found["output"].splitlines()[0]))
    report = json.loads(call_here("run", ".", "--format", "json", cwd=tmp_path).out)
    raised: dict[str, set[str]] = {code: set() for code in texts}
    for result in report["results"]:
        raised[Path(result["path"]).parent.name] |= {f["code"] for f in result["findings"]}
    for error in report["errors"]:
        raised[Path(error["path"]).parent.name].add(error["code"])
    assert {code: code in found for code, found in raised.items()} == dict.fromkeys(texts, True)


def as_keys(command: str) -> str:
    """The options of a command that choose checks, as keys of a spec: one run does them all."""
    chosen = re.findall(r"--(engine|dtype|mode) (\S+)", command)
    return "".join(f"{option}s: [{values}]\n" for option, values in chosen)


@pytest.mark.parametrize(
    "code",
    [
        code if code in QUICK else pytest.param(code, marks=pytest.mark.exhaustive)
        for code, found in EXAMPLES.items()
        if found
    ],
)
def test_a_page_shows_what_its_example_prints(code: str) -> None:
    found = EXAMPLES[code]
    assert walkthrough.words(generate.printed(found)) == walkthrough.words(found["output"])


def test_numbers_that_change_from_run_to_run_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    example = "```yaml\nx\n```\n```text\n$ gradcheck run example.yaml\nvalue is 0.5\n```"
    found = generate.EXAMPLE.search(example)
    runs = iter(["value is 2e-05\n", "value is -3\n"])
    monkeypatch.setattr(generate, "output", lambda *_: next(runs))
    assert generate.printed(found) == found["output"]
    monkeypatch.setattr(generate, "output", lambda *_: "value is 2e-05\n")
    assert generate.printed(found).endswith("value is 2e-05\n")
    monkeypatch.setattr(generate, "output", lambda *_: "no value\n")
    assert generate.printed(found).endswith("no value\n")


def test_each_page_shows_its_own_code() -> None:
    for code, row in CODES.items():
        text = page(row)
        if "$ gradcheck run" in text:
            assert f"[{code}] {row.name}" in text, code
