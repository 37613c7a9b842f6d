import contextlib
import signal
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gradcheck_cli.cli.execution import Interrupts, execute, read_specs
from gradcheck_cli.domain.errors import Stopped, UsageError
from gradcheck_cli.domain.events import Event, Finished, SpecFinished, Started
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.report import SpecError
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines import devices, registry
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


NEAR = "---\nname: near\ninputs: {x: 2.0}\nmodel: x\nengines: [reference]\n"


@pytest.mark.parametrize(
    ("far", "place", "message", "help"),
    [
        (
            "model: x\nengines: [reference, caffe]\n",
            (4, 22, "engines"),
            "unknown engine `caffe`",
            "known: reference, ",
        ),
        (
            "implementations:\n  mine:\n    target: layer.py\n",
            (4, 3, "implementations"),
            "unknown engine `mine`",
            "known: reference, ",
        ),
    ],
)
def test_an_engine_that_is_not_here_is_a_mistake_at_its_place(
    tmp_path: Path, far: str, place: tuple[int, int, str], message: str, help: str
) -> None:
    (tmp_path / "layer.py").write_text("", "utf-8")
    file = tmp_path / "two.yaml"
    file.write_text(f"name: far\ninputs: {{x: 2.0}}\n{far}{NEAR}", "utf-8")
    errors: list[SpecError] = []
    read = read_specs([str(file)], errors, engines=Layered())
    assert [spec.name for spec in read] == ["near"]
    (error,) = errors
    assert error.span is not None
    assert (error.span.line, error.span.column, error.key) == place
    assert (error.message, error.path) == (message, str(file))
    assert error.help.startswith(help)
    beaten = read_specs([str(file)], errors, engines=Layered(override=("reference",)))
    assert [spec.name for spec in beaten] == ["far", "near"]
    assert len(errors) == 1


def test_a_slip_in_the_name_of_a_plug_in_is_corrected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {name: registry.engines()[name] for name in ("reference", "finite-difference")}
    known["far-off"] = replace(known["finite-difference"], name="far-off", version=None)
    monkeypatch.setattr(registry, "engines", lambda: known)
    file = tmp_path / "slips.yaml"
    file.write_text("inputs: {x: 2.0}\nmodel: x\nengines: [far-of, far-off]\n", "utf-8")
    errors: list[SpecError] = []
    assert list(read_specs([str(file)], errors, engines=Layered())) == []
    assert [(error.message, error.help) for error in errors] == [
        ("unknown engine `far-of`", "did you mean `far-off`?"),
        ("the engine `far-off` is not installed", known["far-off"].install),
    ]


def test_an_engine_of_the_defaults_is_one_mistake(tmp_path: Path) -> None:
    file = tmp_path / "shared.yaml"
    one = "---\nname: {}\ninputs: {{x: 2.0}}\nmodel: x\n"
    text = "defaults:\n  engines: [caffe]\n" + one.format("a") + one.format("b") + NEAR
    file.write_text(text, "utf-8")
    errors: list[SpecError] = []
    read = read_specs([str(file)], errors, engines=Layered())
    assert [spec.name for spec in read] == ["near"]
    (error,) = errors
    assert error.span is not None
    assert (error.span.line, error.span.column) == (2, 13)


@pytest.mark.parametrize("linked", [True, False])
def test_an_interrupt_that_another_exception_replaces_while_specs_are_read(
    monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    def reading(specs: Iterable[object], options: object) -> Iterator[Event]:
        try:
            yield Started(len(list(specs)), ())
        except KeyboardInterrupt:
            yield Finished(replace(REPORT, interrupted=True))

    def specs() -> Iterator[Spec]:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt as error:
            raise SystemError("returned a result with an exception set") from (
                error if linked else None
            )
        yield from ()

    monkeypatch.setattr(session, "run", reading)
    report = execute(specs(), RunOptions(), [Heard()], [], "")
    assert (report.interrupted, report.signal) == (True, signal.SIGTERM)
    assert report.results == REPORT.results


def test_an_interrupt_that_is_lost_while_a_spec_is_read_begins_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = []

    def reading(specs: Iterable[object], options: object) -> Iterator[Event]:
        try:
            begun.extend(specs)
        except KeyboardInterrupt:
            yield Finished(samples.report())

    def specs() -> Iterator[str]:
        yield "first"
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        yield "second"

    monkeypatch.setattr(session, "run", reading)
    execute(specs(), RunOptions(), [], [], "")  # type: ignore[arg-type]
    assert begun == ["first"]


def test_an_exception_that_follows_a_lost_interrupt_is_an_interruption() -> None:
    def ended(error: Exception, interrupted: bool = True) -> None:
        with Interrupts():
            if interrupted:
                signal.raise_signal(signal.SIGTERM)
            raise error

    with pytest.raises(Stopped) as caught:
        ended(SystemError())
    assert caught.value.signal == signal.SIGTERM
    with pytest.raises(UsageError, match="cannot write"):
        ended(UsageError("cannot write to report.json"))
    with pytest.raises(SystemError):
        ended(SystemError(), interrupted=False)
