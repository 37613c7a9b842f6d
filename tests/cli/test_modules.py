"""Start-up is a feature: what must not be imported is not."""

import subprocess
import sys
from pathlib import Path

import pytest

from .calling import environment

SPEC = "inputs: {x: 2}\nmodel: x ** 2\n"
FRAMEWORKS = ("torch", "tensorflow", "keras", "jax", "sympy")

LIST_MODULES = """
import sys
from gradcheck_cli.cli.app import app
from gradcheck_cli.cli.exits import guarded
code = guarded(app, sys.argv[1:])
print("\\n".join(sys.modules), file=open("modules.txt", "w"))
sys.exit(code)
"""


def loaded(folder: Path, *arguments: str) -> set[str]:
    """The modules and packages in the process after `gradcheck ARGUMENTS`."""
    subprocess.run(
        [sys.executable, "-c", LIST_MODULES, *arguments],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=60,
    )
    return set((folder / "modules.txt").read_text().split())


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (("--help",), ("numpy", "rich", "pydantic", "ruamel", "scipy", *FRAMEWORKS)),
        (("--version",), ("numpy", "rich", "pydantic", "ruamel", "scipy", *FRAMEWORKS)),
        (("run", "--help"), ("numpy", "pydantic", "ruamel", "scipy", *FRAMEWORKS)),
        (("explain", "GC201"), ("numpy", "pydantic", "ruamel", "scipy", *FRAMEWORKS)),
        (("ops",), ("pydantic", "ruamel", "scipy", *FRAMEWORKS)),
        (("engines",), FRAMEWORKS),
        (("schema",), FRAMEWORKS),
        (("schema", "report"), ("numpy", "pydantic", *FRAMEWORKS)),
        (("validate", "a.yaml"), ("scipy", *FRAMEWORKS)),
        (
            ("run", "a.yaml", "--engine", "reference"),
            (
                "scipy",
                "importlib.metadata",  # a scan of all that is installed, for other engines
                "gradcheck_cli.engines.eigen",
                "gradcheck_cli.explain.blame.explanation",  # what is right needs no explanation
                "gradcheck_cli.explain.fixes.code",
                "_hashlib",  # OpenSSL: only a finding has a fingerprint
                "gradcheck_cli.checks.examination",
                "gradcheck_cli.testing",
                *FRAMEWORKS,
            ),
        ),
    ],
)
def test_what_a_command_does_not_import(
    arguments: tuple[str, ...], absent: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").write_text(SPEC, "utf-8")
    assert loaded(tmp_path, *arguments).isdisjoint(absent)


def test_no_process_of_a_reference_run_imports_a_framework(tmp_path: Path) -> None:
    """Frameworks on the path that leave a trace when imported, in whatever process."""
    (tmp_path / "a.yaml").write_text(SPEC, "utf-8")
    site = tmp_path / "site"
    for name in FRAMEWORKS:
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").write_text(
            f"open({str(tmp_path / 'imported')!r}, 'a').write({name!r})\n", "utf-8"
        )
    here = environment()
    done = subprocess.run(
        [sys.executable, "-m", "gradcheck_cli", "run", "a.yaml", "--engine", "reference"],
        cwd=tmp_path,
        env={**here, "PYTHONPATH": f"{site}:{here['PYTHONPATH']}"},
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert b"ok " in done.stdout
    assert not (tmp_path / "imported").exists()
