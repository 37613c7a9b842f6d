"""The finding codes: each is written down once."""

import ast
import re
from pathlib import Path

from gradcheck_cli.domain.codes import CODES, Codes, Families

PACKAGE = Path(__file__).parents[2] / "gradcheck_cli"
REGISTRY = PACKAGE / "domain" / "codes.py"
A_CODE_OR_ITS_BEGINNING = re.compile(r"GC\d{1,3}")


def _literals(path: Path) -> list[str]:
    """Places of texts that are a code and nothing else; a sentence may name one."""
    text = path.read_text("utf-8")
    if not A_CODE_OR_ITS_BEGINNING.search(text):
        return []
    return [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {node.value}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and A_CODE_OR_ITS_BEGINNING.fullmatch(node.value)
    ]


def test_no_code_is_written_down_outside_the_registry() -> None:
    assert len(_literals(REGISTRY)) >= len(CODES)
    files = sorted(PACKAGE.rglob("*.py"))
    assert [place for path in files if path != REGISTRY for place in _literals(path)] == []


def test_a_constant_is_called_as_the_code_is_called() -> None:
    constants = {name: value for name, value in vars(Codes).items() if not name.startswith("__")}
    named = {row.name.upper().replace("-", "_"): code for code, row in CODES.items()}
    assert constants == named


def test_a_family_is_the_beginning_of_codes() -> None:
    beginnings = {code[:3] for code in CODES}
    families = {value for name, value in vars(Families).items() if not name.startswith("__")}
    assert families <= beginnings
