"""The plugin for pytest: specs as items, `assert_gradients` as a fixture, reports in place of
tracebacks.

pytest imports this module in every project that has gradcheck installed. Slow imports therefore
wait until there is something to check.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

_SETTING = "gradcheck_specs"
_ENDINGS = (".gradcheck.yaml", ".gradcheck.yml")
MARKER = "gradcheck"
OPTIONS = (
    *("engine", "dtype", "mode", "select", "ignore", "baseline", "fail-on"),
    *("seed", "timeout", "memory", "power", "device"),
)
"""Settings of `gradcheck run` that pytest has as options, too."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        _SETTING,
        "gradcheck specs to collect in addition to *.gradcheck.yaml: files, folders, globs.",
        type="paths",
        default=[],
    )
    group = parser.getgroup("gradcheck", "gradients")
    for name in OPTIONS:
        group.addoption(
            f"--gradcheck-{name}",
            metavar=name.upper(),
            help=f"As --{name} of `gradcheck run`, for the collected specs.",
        )


def pytest_configure(config: pytest.Config) -> None:
    """Adds the specs of the configuration to a run without paths."""
    config.addinivalue_line(
        "markers", f"{MARKER}: specs, and tests with the fixture assert_gradients."
    )
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    requested = [config.invocation_params.dir / arg for arg in config.args]
    for path in _setting_paths(config):
        if not any(path.is_relative_to(folder) for folder in requested):
            config.args.append(str(path))


def _setting_paths(config: pytest.Config) -> list[Path]:
    """The files and folders of the setting, with globs expanded."""
    paths: list[Path] = []
    for path in config.getini(_SETTING):
        pattern = str(path)
        if any(sign in pattern for sign in "*?["):
            import glob

            paths += [Path(name) for name in sorted(glob.glob(pattern, recursive=True))]
        else:
            paths.append(Path(path))
    return paths


class SpecFile(pytest.File):
    """A file of specs: one item for each spec, and one for all mistakes in the file."""

    def collect(self) -> Iterator[pytest.Item]:
        from gradcheck_cli.testing.items import items_of  # NumPy, and all that runs a spec

        return items_of(self, _arguments(self.config))


def _arguments(config: pytest.Config) -> list[str]:
    """The options of pytest's command line as arguments of `gradcheck run`."""
    given = ((name, config.getoption(f"--gradcheck-{name}")) for name in OPTIONS)
    return [word for name, value in given if value is not None for word in (f"--{name}", value)]


def pytest_itemcollected(item: pytest.Item) -> None:
    if isinstance(item.parent, SpecFile) or "assert_gradients" in getattr(item, "fixturenames", ()):
        item.add_marker(MARKER)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> SpecFile | None:
    if file_path.suffix not in (".yaml", ".yml"):
        return None
    if not file_path.name.endswith(_ENDINGS):
        named = _setting_paths(parent.config)
        if not any(file_path == path or path in file_path.parents for path in named):
            return None
    return SpecFile.from_parent(parent, path=file_path)


@pytest.hookimpl(hookwrapper=True)  # the old kind, which every pytest knows
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, None]:
    """Shows the report of a wrong gradient, and the line that requested the check."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    ours = sys.modules.get("gradcheck_cli.testing.report")  # not imported: nothing of ours was run
    if ours is None or call.excinfo is None or report.outcome != "failed":
        return
    error = call.excinfo.value
    if isinstance(error, ours.NotRight):
        report.longrepr = str(error)
    elif isinstance(error, ours.GradientError):
        entries = [e for e in call.excinfo.traceback if not e.ishidden(call.excinfo)]
        last = entries[-1] if entries else call.excinfo.traceback[-1]
        known = last.frame.code.fullsource is not None  # not for code that was typed in
        line = f": {str(last.statement).strip()}" if known else ""
        report.longrepr = f"{error}\n\n{_relative_path(item, last.path)}:{last.lineno + 1}{line}"


def _relative_path(item: pytest.Item, path: Any) -> str:
    try:
        return str(Path(path).relative_to(item.config.rootpath))
    except ValueError:
        return str(path)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Ends the workers of the items."""
    items = sys.modules.get("gradcheck_cli.testing.items")
    if items is not None:
        items.close(session.config)


@pytest.fixture
def assert_gradients() -> Callable[..., None]:
    """`gradcheck_cli.assert_gradients`: raises an error with the whole report if a gradient is
    wrong."""
    from gradcheck_cli.testing import api

    return api.assert_gradients
