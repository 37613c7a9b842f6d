"""What is on the page, and how much of it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from markupsafe import escape

from gradcheck_cli.domain.report import Report
from gradcheck_cli.report.html.page import BUDGET, page, spec_html
from gradcheck_cli.report.style import plain
from tests.report import samples


def test_a_page_needs_nothing_else(mixed: Report) -> None:
    text = page(mixed)
    assert text.startswith("<!doctype html>")
    assert "default-src 'none'" in text
    assert not re.search(r"""(src|href)=["'](?!#|data:)""", text)
    assert "@import" not in text
    assert "url(" not in text


def test_what_failed_comes_first(mixed: Report) -> None:
    states = re.findall(r'data-status="(\w+)', page(mixed))
    order = ["failed", "broke", "warning", "in", "unchecked", "accepted", "passed"]
    assert [order.index(state) for state in states] == sorted(map(order.index, states))


def test_nothing_in_a_name_is_markup_or_steers() -> None:
    text = page(samples.strange())
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", text)
    assert "<script>alert" not in text
    assert text.count("<script>") == 1
    assert escape(plain(samples.STRANGE)) in text
    (path,) = set(re.findall(r'<span class="path">([^<]*)', text))
    assert path == escape(plain(samples.strange().results[0].source.path))
    text.encode("utf-8")


@pytest.mark.parametrize(
    ("report", "headline"),
    [
        (samples.report(), "Nothing was checked"),
        (samples.report(errors=(samples.spec_error(),)), "No spec could be read"),
        (samples.report(samples.quadratic()), "The spec passed"),
        (samples.report(samples.quadratic(), samples.trained()), "All 2 specs passed"),
        (samples.report(samples.quadratic(), samples.wrong_sign()), "1 of 2 specs failed"),
    ],
)
def test_the_headline_says_how_it_went(report: Report, headline: str) -> None:
    assert f"<h1>{headline}</h1>" in page(report)


def test_a_large_page_leaves_out_pictures_first_and_says_so(drawn: Report) -> None:
    bad_row = drawn.results[1]
    many = replace(
        drawn, results=tuple(replace(bad_row, spec=f"spec_{number}") for number in range(800))
    )
    text = page(many)
    assert 0.6 * BUDGET < len(text.encode()) < 5_000_000
    assert text.count('<article class="spec"') == 800
    said = re.search(r"(\d+) specs are shown without pictures, and (\d+) of them", text)
    assert said is not None
    assert text.count('class="graph"') == 800 - int(said[1])
    assert text.count('<div class="body">') == 800 - int(said[2])


def test_a_section_stands_by_itself_in_a_notebook(drawn: Report) -> None:
    text = spec_html(drawn.results[1])
    assert text.startswith('<div class="gradcheck"><style>')
    assert "bad_row" in text
    assert "<script" not in text


def test_one_mistake_is_not_several() -> None:
    one = samples.report(errors=(samples.spec_error(),))
    assert "mistake in files" in page(one)
    assert "mistakes in files" in page(replace(one, errors=(samples.spec_error(),) * 2))
