"""The pages about the finding codes, which `gradcheck explain` shows."""

from __future__ import annotations

from pathlib import Path

import gradcheck_cli
from gradcheck_cli.domain.codes import Code

PAGES = Path(gradcheck_cli.__file__).parent / "explain" / "pages"


def page(row: Code) -> str:
    """The page of a code, in Markdown."""
    return (PAGES / f"{row.code}.md").read_text("utf-8")
