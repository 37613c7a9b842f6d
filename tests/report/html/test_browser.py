"""The page in a browser: it works without a network, by keyboard, on a phone, in the dark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from gradcheck_cli.domain.report import Report
from tests.report import samples
from tests.report.writing import written

NUMBER_THEM = """selector => {
    const seen = [...document.querySelectorAll(selector)].filter(e => e.checkVisibility());
    seen.forEach((element, place) => element.dataset.place = place);
    return seen.length;
}"""
CONTRAST = """pair => {
    const style = getComputedStyle(document.querySelector(".gradcheck"));
    const light = name => {
        const hex = style.getPropertyValue("--" + name).trim().slice(1);
        const full = hex.length === 3 ? [...hex].map(c => c + c).join("") : hex;
        const [r, g, b] = [0, 2, 4].map(i => parseInt(full.slice(i, i + 2), 16) / 255)
            .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const [low, high] = pair.map(light).sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
}"""
FOCUSABLE = "a[href], button, input, select, summary, [tabindex='0']"


@contextmanager
def shown(
    browser: Browser, file: Path, report: Report, width: int = 1280, scheme: str = "light"
) -> Iterator[Page]:
    """The page of a report. At the end nothing was said on the console, and nothing requested."""
    file.write_text(written("html", report), "utf-8")
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    page, heard, asked = context.new_page(), [], []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("dialog", lambda dialog: heard.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    yield page
    assert heard == []
    assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
    context.close()


def names(page: Page) -> list[str]:
    """The names of the specs in view."""
    return page.locator("article.spec:visible .name").all_inner_texts()


def test_filters_show_what_fits_and_say_how_many(
    browser: Browser, written_page: Path, mixed: Report
) -> None:
    with shown(browser, written_page, mixed) as page:
        everything = names(page)
        assert len(everything) == len(mixed.results)
        status = page.locator(".shown")
        assert status.inner_text() == f"{len(everything)} of {len(everything)} specs"
        page.select_option("#engine", "tensorflow")
        assert "bad_row" not in names(page)
        assert "quadratic" in names(page)
        page.select_option("#engine", "")
        page.select_option("#status", "passed")
        assert "right" in names(page)
        assert "bad_row" not in names(page)
        page.select_option("#status", "")
        page.click(".chip[data-code=GC101]")
        assert page.get_attribute(".chip[data-code=GC101]", "aria-pressed") == "true"
        assert "bad_row" in names(page)
        assert "right" not in names(page)
        page.fill("#text", "gc101 BAD_row")
        assert names(page) == ["bad_row"]
        assert status.inner_text() == f"1 of {len(everything)} specs"
        page.fill("#text", "there is no such spec")
        assert names(page) == []
        page.click("#all")
        assert names(page) == everything


def test_details_open_and_close_together_or_by_a_link(
    browser: Browser, written_page: Path, mixed: Report
) -> None:
    with shown(browser, written_page, mixed) as page:
        opened = page.locator("article.spec > details[open]")
        page.click("#close")
        assert opened.count() == 0
        page.evaluate("location.hash = 'spec-2'")
        page.wait_for_selector("#spec-2 > details[open]")
        assert opened.count() == 1
        page.click("#open")
        assert opened.count() == len(mixed.results)


def test_the_keyboard_reaches_everything(
    browser: Browser, written_page: Path, drawn: Report
) -> None:
    with shown(browser, written_page, drawn) as page:
        page.click("#open")
        page.evaluate("document.activeElement.blur()")
        there = page.evaluate(NUMBER_THEM, FOCUSABLE)
        reached = set()
        for _ in range(there + 5):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.dataset.place"))
        assert reached >= {str(place) for place in range(there)}
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "text"
        page.locator("article.spec summary").first.focus()
        page.keyboard.press("Enter")
        assert page.locator("article.spec > details").first.get_attribute("open") is None


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_the_page_itself_never_scrolls_sideways(
    browser: Browser, written_page: Path, mixed: Report, width: int
) -> None:
    with shown(browser, written_page, mixed, width) as page:
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        widths = page.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert widths[0] <= widths[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(
    browser: Browser, written_page: Path, mixed: Report, scheme: str
) -> None:
    """At least 4.5, what WCAG 2.2 asks for text of this size (success criterion 1.4.3)."""
    pairs = [(tone, "card") for tone in ("ink", "soft", "accent", "derivative")]
    pairs += [(tone, "paper") for tone in ("ink", "soft", "error", "ok")]
    pairs += [(t, f"{t}-tint") for t in ("error", "warning", "note", "ok")]
    pairs += [(t, "card") for t in ("error", "warning", "note", "ok")]
    with shown(browser, written_page, mixed, scheme=scheme) as page:
        for text, ground in pairs:
            ratio = page.evaluate(CONTRAST, [text, ground])
            assert ratio >= 4.5, f"{text} on {ground}: {ratio:.2f}"
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(15, 19, 25)") == (scheme == "dark")


def test_a_screen_reader_is_told_what_pictures_show(
    browser: Browser, written_page: Path, drawn: Report
) -> None:
    with shown(browser, written_page, drawn) as page:
        page.click("#open")
        pictures = page.locator("svg[role=img]")
        assert pictures.count() >= 6
        for picture in pictures.all():
            assert picture.locator("xpath=./*[local-name()='title']").text_content()
        assert page.get_by_role("search").count() == 1
        assert page.get_by_role("main").count() == 1
        assert page.get_by_role("heading", level=1).inner_text() == "2 of 3 specs failed"
        for name in ("Search", "Status", "Code", "Engine"):
            assert page.get_by_label(name, exact=True).count() == 1
        assert "row 1 is wrong throughout" in page.locator("svg.heat title").first.text_content()


def test_what_users_write_is_text(browser: Browser, written_page: Path, mixed: Report) -> None:
    with shown(browser, written_page, mixed) as page:
        strange = [result.spec for result in samples.strange().results]
        assert any("<" in name or "[/]" in name for name in strange)
        whole = page.locator("main").text_content()
        assert all(name.split("\x1b")[0].split("\n")[0] in whole for name in strange)
        assert page.locator("main script, main img, main iframe").count() == 0


@pytest.mark.exhaustive
def test_five_thousand_findings(browser: Browser, written_page: Path) -> None:
    with shown(browser, written_page, samples.many(5000)) as page:
        assert written_page.stat().st_size < 5_000_000
        page.fill("#text", "spec")
        assert page.locator(".shown").inner_text().endswith("specs")
