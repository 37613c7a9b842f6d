"""`gradcheck layer`."""

from __future__ import annotations

import os
import shlex
from typing import Any

import click

from gradcheck_cli.cli.layer_target import LayerTarget, is_spec, layer_options, spec_of, written_in
from gradcheck_cli.cli.option_types import Integer
from gradcheck_cli.cli.run import Job, run
from gradcheck_cli.cli.settings import SettingsCommand, options_of
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.place import COMMAND_LINE

_KEYS = {"dtype": "dtypes", "mode": "modes"}
"""Settings that are keys of a spec under another name."""
_LIMITS = ("timeout", "memory", "power", "device")


@click.command(cls=SettingsCommand)
@click.argument("target", metavar="TARGET")
@layer_options
@click.option(
    "--order", type=Integer(1, 3), help="2 also checks second derivatives, 3 third derivatives."
)
@click.option("--save", metavar="FILE", help="Write the equivalent spec to a new file.")
@options_of()
@click.pass_context
def command(
    context: click.Context, /, target: str, order: int | None, save: str | None, **options: Any
) -> int:
    """Check the gradients of a layer without a spec.

    TARGET is a function, a module, a class with a custom gradient, a Keras layer: layers.py:RMSNorm
    or package.module:RMSNorm. --engine names its framework, if its imports do not show it.
    All settings of `gradcheck run` apply here too.
    """
    from gradcheck_cli.cli.execution import Interrupts

    if is_spec(target):
        raise click.UsageError(f"{target} is a spec: `gradcheck run {target}` checks it.")
    layer = LayerTarget(target, *(options[name] for name in ("inputs", "args", "kwargs")))
    engines = tuple(name for names in options["engine"] for name in names)
    engines = engines or (written_in(target),)
    stated = _spec_settings(options, order)
    with Interrupts() as interrupts:
        if save is None:
            text = spec_of(layer, engines, stated)
            job = Job((COMMAND_LINE,), text, engines, _command_line(layer, order))
        else:
            _save(save, spec_of(layer, engines, stated, os.path.dirname(save)))
            job = Job((save,), engines=engines)
        return run(context, job, interrupts)


def _spec_settings(options: dict[str, Any], order: int | None) -> dict[str, Any]:
    """The settings of this call that are keys of a spec."""
    keys: dict[str, Any] = {"order": order} if order else {}
    for name, key in _KEYS.items():
        if values := [value for group in options[name] for value in group]:
            keys[key] = values
    keys.update((name, options[name]) for name in _LIMITS if options[name] is not None)
    return keys


def _command_line(layer: LayerTarget, order: int | None) -> str:
    words = ["gradcheck", "layer", layer.target]
    for flag, values in (("input", layer.inputs), ("arg", layer.args), ("kwarg", layer.kwargs)):
        words += (word for value in values for word in (f"--{flag}", value))
    words += ["--order", str(order)] if order else []
    return shlex.join(words)


def _save(file: str, text: str) -> None:
    """Write the spec to a new file. Raises UsageError, also if the file exists."""
    from gradcheck_cli.cli.outputs import new_file

    if not is_spec(file) or file == "-":
        raise UsageError(f"--save {file}: a spec is called *.yaml", f"--save {file}.gradcheck.yaml")
    new_file(file, text)
