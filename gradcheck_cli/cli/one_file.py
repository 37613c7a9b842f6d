"""Shared by commands about one spec file: reading it, and showing its mistakes."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gradcheck_cli.cli.streams import style_for

if TYPE_CHECKING:
    from gradcheck_cli.domain.report import SpecError
    from gradcheck_cli.domain.spec import Spec


def read_specs(*paths: str) -> tuple[list[Spec], list[SpecError]]:
    """The specs of files, or of standard input (-), and the mistakes in them."""
    from gradcheck_cli import specfile

    files, mistakes, _ = specfile.expand(paths)
    read = [specfile.read(file) for file in files]
    specs = [spec for found, _ in read for spec in found]
    return specs, [*mistakes, *(mistake for _, found in read for mistake in found)]


def show_mistakes(mistakes: Iterable[SpecError], color: str | None = None) -> None:
    """Print mistakes to standard error, each with its place."""
    from gradcheck_cli.report.blocks import error_block
    from gradcheck_cli.report.console import print_lines

    style = style_for(sys.stderr, color)
    for mistake in mistakes:
        print_lines(sys.stderr, style, error_block(mistake, style))


def no_formula(spec: Spec) -> SpecError:
    """The mistake of a spec about layers when a formula is needed."""
    from gradcheck_cli.domain.codes import Codes
    from gradcheck_cli.domain.report import SpecError

    words = f"`{spec.name}` is about layers, and has no formula to differentiate"
    return SpecError(Codes.UNSUPPORTED_OPERATION, spec.source.path, words, spec.span, spec.source)
