"""`gradcheck init`."""

from __future__ import annotations

import os

import click

from gradcheck_cli.cli.layer_target import LayerTarget, layer_options, spec_of, written_in
from gradcheck_cli.cli.outputs import new_file
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.records import replace

FORMULA = """\
# A spec: a formula, its inputs, and what to check. `gradcheck run` checks it.
inputs:
  x: 100                      # a number, a list, or {shape: [2, 3], distribution: normal}
model: 1 / exp(x)             # it looks like Python; `gradcheck ops` lists the operations
"""

LAYER = """\
# A spec: a layer, its inputs, and what to check. `gradcheck run` checks it.
"""

SETTINGS = """
# Optional keys, with examples. `gradcheck schema` lists all keys.
# dtypes: [float16, float32]  # default: float32 and float64
# modes: [reverse]            # default: reverse and forward
# order: 2                    # second derivatives as well
# tolerance: {ulps: 4}        # rarely needed: the default knows what rounding costs
# allow: [{code: GC301, reason: "why this finding is accepted"}]
"""
PLACEHOLDER = "# put its shape here"
ENGINES = "# engines: [torch]            # default: all that are installed\n"

CI = {
    "github": (
        ".github/workflows/gradcheck.yml",
        """\
# Checks every gradient of the project: the files *.gradcheck.yaml and the specs below this folder.
name: gradcheck
on: [push, pull_request]
jobs:
  gradcheck:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: pip install "gradcheck-cli{extra}"
      - run: gradcheck run --format github
""",
    ),
    "gitlab": (
        ".gitlab-ci.yml",
        """\
# Checks every gradient of the project: the files *.gradcheck.yaml and the specs below this folder.
gradcheck:
  image: python:3.12
  script:
    - pip install "gradcheck-cli{extra}"
    - gradcheck run --report junit=gradcheck.xml --report gitlab=gradcheck.json
  artifacts:
    when: always
    reports:
      junit: gradcheck.xml
      codequality: gradcheck.json
""",
    ),
}
"""For each CI service, its file and the file's text, with `extra` for the frameworks to install."""

_EXTRAS = ("torch", "tensorflow", "jax", "eigen")


@click.command()
@click.argument("target", required=False, metavar="[TARGET]")
@click.option(
    "--engine", metavar="ENGINE", help="Framework of the layer; default: the one that it imports."
)
@layer_options
@click.option("--output", metavar="FILE", help="File of the spec; default: NAME.gradcheck.yaml.")
@click.option("--ci", type=click.Choice(tuple(CI)), help="Also write the file for this CI service.")
def command(
    target: str | None,
    engine: str | None,
    output: str | None,
    ci: str | None,
    **given: tuple[str, ...],
) -> None:
    """Write a first spec with comments, and a file for CI.

    Without TARGET, the spec has a formula with a wrong gradient. TARGET is a layer, as for
    `gradcheck layer`; inputs that are not given have the names in its code, and a shape to fill in.
    No file is overwritten: with --ci, an existing spec is kept.
    """
    if target is None and (engine or any(given.values())):
        raise click.UsageError("--engine, --input, --arg and --kwarg need a TARGET.")
    files = {}
    if target is None:
        file = output or "first.gradcheck.yaml"
        files[file] = FORMULA + SETTINGS + ENGINES
    else:
        layer = LayerTarget(target, **given)
        engine = engine or written_in(target)
        file = output or f"{layer.name}.gradcheck.yaml"
        files[file] = _layer_spec(layer, engine, os.path.dirname(file))
    if ci:
        place, text = CI[ci]
        extra = f"[{engine}]" if engine in _EXTRAS else "" if target else "[all]"
        files[place] = text.format(extra=extra)
        if os.path.lexists(file):
            del files[file]
    for name in files:
        if os.path.lexists(name):
            other = ", or --output FILE for the spec" if name == file else ""
            raise UsageError(f"{name} already exists", f"remove it{other}")
    if file not in files:
        click.echo(f"kept {file}")
    for name, text in files.items():
        new_file(name, text)
        click.echo(f"wrote {name}")
    if PLACEHOLDER in files.get(file, ""):
        click.echo(f"next: put the shapes of the inputs into {file}")
    if target and engine == "numpy":
        _ask_for_backward(target)
    click.echo("next: gradcheck run" + ("" if output is None else f" {output}"))


def _ask_for_backward(target: str) -> None:
    from gradcheck_cli.specfile.project_files import input_names, without_backward

    name = without_backward(target)
    if not name:
        return
    arguments = ["self", "g"] if name == "backward" else ["g", *input_names(target)]
    returns = "the gradient of each input; `g` is the gradient of the output"
    click.echo(f"next: write `{name}({', '.join(arguments)})`, which returns {returns}")


def _layer_spec(layer: LayerTarget, engine: str, folder: str) -> str:
    from gradcheck_cli.specfile.project_files import constructor_names, input_names

    given = {text.partition("=")[0].strip() for text in layer.kwargs}
    needed = [n for n in constructor_names(layer.target)[len(layer.args) :] if n not in given]
    if needed:
        raise UsageError(
            f"the constructor of {layer.target} needs {' and '.join(f'`{n}`' for n in needed)}",
            f"--arg VALUE for each, in this order, or --kwarg {needed[0]}=VALUE",
        )
    shape = "{shape: [2, 3], distribution: normal}"
    if layer.inputs:
        return LAYER + spec_of(layer, [engine], folder=folder) + SETTINGS
    names = input_names(layer.target)
    if not names:
        raise UsageError(
            f"the inputs of {layer.target} cannot be read from its code",
            f"name each with a shape: gradcheck init {layer.target} --input x=2x3",
        )
    named = replace(layer, inputs=tuple(f"{n}={shape}" for n in names))
    text = spec_of(named, [engine], folder=folder)
    return LAYER + text.replace(f"{shape}\n", f"{shape}  {PLACEHOLDER}\n") + SETTINGS
