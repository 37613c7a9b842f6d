import contextlib
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from gradcheck_cli.cli.execution import Interrupts, execute, read_specs
from gradcheck_cli.domain.events import Event, Finished, SpecFinished, Started
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.report import SpecError
from gradcheck_cli.engines import devices
from gradcheck_cli.run import session
from tests.report import samples

REPORT = samples.report(samples.quadratic())


class Heard:
    """Keeps what it hears; raises Ctrl-C at one kind of event, once."""

    def __init__(self, interrupt_at: type | None = None, times: int = 1) -> None:
        self.events: list[Event] = []
        self._interrupt_at = interrupt_at
        self._times = times

    def hear(self, event: Event) -> None:
        self.events.append(event)
        if self._interrupt_at and isinstance(event, self._interrupt_at) and self._times:
            self._times -= 1
            raise KeyboardInterrupt


def run(specs: object, options: object) -> Iterator[Event]:
    try:
        yield Started(1, ("reference",))
        yield SpecFinished(samples.quadratic())
        yield Finished(REPORT)
    except KeyboardInterrupt:
        yield Finished(samples.report())


@pytest.fixture(autouse=True)
def a_session_without_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "run", run)


def test_listeners_hear_everything_and_the_report_has_the_mistakes_of_the_files() -> None:
    heard = Heard()
    error = samples.spec_error()
    report = execute([], RunOptions(), [heard], [error], "gradcheck run a")
    assert [type(event) for event in heard.events] == [Started, SpecFinished, Finished]
    assert (report.errors, report.command) == ((error,), "gradcheck run a")
    assert heard.events[-1] == Finished(report)


def test_after_ctrl_c_the_run_still_hands_over_its_report() -> None:
    heard = Heard(interrupt_at=SpecFinished)
    report = execute([], RunOptions(), [heard], [], "")
    assert report.results == ()
    assert isinstance(heard.events[-1], Finished)


def test_ctrl_c_before_the_run_interrupts_no_import_and_ends_the_run_at_its_first_spec(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def reading(specs: Iterable[object], options: object) -> Iterator[Event]:
        try:
            yield Started(len(list(specs)), ())
        except KeyboardInterrupt:
            yield Finished(samples.report())

    monkeypatch.setattr(session, "run", reading)
    heard = Heard()
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGTERM)  # nothing is raised here
        report = execute([], RunOptions(), [heard], [], "", interrupts)
    assert [type(event) for event in heard.events] == [Finished]
    assert report.signal == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_second_ctrl_c_ends_everything() -> None:
    heard = Heard(interrupt_at=object, times=2)
    with pytest.raises(KeyboardInterrupt):
        execute([], RunOptions(), [heard], [], "")


def test_a_ctrl_c_whose_exception_gets_lost_is_not_forgotten() -> None:
    class Swallowing(Heard):
        def hear(self, event: Event) -> None:
            super().hear(event)
            if isinstance(event, SpecFinished):
                with contextlib.suppress(KeyboardInterrupt):
                    signal.raise_signal(signal.SIGINT)

    heard = Swallowing()
    report = execute([], RunOptions(), [heard], [], "")
    assert report.results == ()
    assert [type(event) for event in heard.events] == [Started, SpecFinished, Finished]


def test_the_handler_of_before_comes_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    execute([], RunOptions(), [], [], "")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_device_that_is_not_here_is_a_mistake_at_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "cuda_devices", lambda: (0, "no NVIDIA driver is installed"))
    file = tmp_path / "two.yaml"
    file.write_text(
        "name: far\ninputs: {x: 2.0}\nmodel: x\ndevice: cuda\n"
        "---\nname: near\ninputs: {x: 2.0}\nmodel: x\ndevice: cpu\n"
    )
    errors: list[SpecError] = []
    assert [spec.name for spec in read_specs([str(file)], errors)] == ["near"]
    (error,) = errors
    assert error.message == "there is no device `cuda` here: no NVIDIA driver is installed"
    assert error.span is not None
    assert (error.span.line, error.span.column, error.key) == (4, 9, "device")
    assert "needs an NVIDIA GPU" in error.help
    beaten = read_specs([str(file)], errors, device=Layered(override="cpu"))
    assert [spec.name for spec in beaten] == ["far", "near"]
    assert len(errors) == 1
