"""A run with pictures, and a browser that shows it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from gradcheck_cli import specfile
from gradcheck_cli.domain.events import Finished
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.report import Report
from gradcheck_cli.run.session import run
from tests.report import samples

SPECS = """
name: reciprocal_exp
points: [{x: 100.0}, {x: 1.0}]
inputs: {x: 100.0}
model: 1 / exp(x)
dtypes: [float32]
---
name: bad_row
inputs:
  x: [1.0, 2.0, 3.0]
  w: {shape: [3, 5], distribution: normal}
model: |
  def dense_vjp(u, x, w):
      g = outer(x, u)
      return w @ u, where(reshape(arange(3), (3, 1)) == 1, 0.5 * g, g)

  @custom_gradient(dense_vjp)
  def dense(x, w):
      return x @ w

  sum(tanh(dense(x, w)))
---
name: right
inputs: {x: [0.5, 2.0]}
model: y = sum(sin(x) * x)
"""


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Three specs on the reference engine, with all pictures that there are."""
    file = tmp_path_factory.mktemp("specs") / "specs.yaml"
    file.write_text(SPECS)
    specs, mistakes = specfile.read(str(file))
    assert not mistakes
    options = RunOptions(engines=Layered(override=("reference",)), illustrated=True)
    *_, last = run(specs, options)
    assert isinstance(last, Finished)
    return last.report


@pytest.fixture(scope="session")
def mixed(drawn: Report) -> Report:
    """These, and what was built by hand: other engines, strange names, mistakes in files."""
    strange, others = samples.strange(), samples.everything()
    return replace(
        drawn,
        results=(*drawn.results, *others.results, *strange.results),
        errors=(*others.errors, *strange.errors),
        command="gradcheck run specs",
    )


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Headless Chromium without its talk to the network."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    assert found, "the tests of the HTML report need Chromium: apt-get install chromium"
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=flags)
        yield opened
        opened.close()


@pytest.fixture
def written_page(tmp_path: Path) -> Path:
    return tmp_path / "report.html"
