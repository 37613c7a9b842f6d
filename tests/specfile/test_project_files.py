"""Which files a layer's code reaches is read from its import statements."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.specfile.project_files import file_of, imported_files, imports, input_names

FILES = {
    "layers.py": "import torch\nimport helpers\nfrom pkg import parts\n\nraise SystemExit\n",
    "helpers.py": "import os\nfrom pkg.deep.scale import factor\n",
    "pkg/__init__.py": "",
    "pkg/parts.py": "def f():\n    from . import lazily\n    from .deep import other as o\n",
    "pkg/lazily.py": "from ..pkg import parts\nimport numpy.linalg\n",
    "pkg/deep/__init__.py": "",
    "pkg/deep/scale.py": "factor = 2\n",
    "pkg/deep/other.py": "this is no Python\n",
    "pkg/unused.py": "",
    "layer.hpp": '#include <cmath>\n  #include "inner/part.hpp"\n',
    "inner/part.hpp": '#include "gone.hpp"\n',
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def found(project: Path, *targets: str) -> list[str]:
    files = imported_files(targets, str(project))
    return [str(Path(file).relative_to(project)) for file in files]


def test_imports_are_followed_from_file_to_file(project: Path) -> None:
    assert found(project, "layers.py:Net") == sorted(
        name for name in FILES if name.endswith(".py") and name != "pkg/unused.py"
    )


def test_a_module_brings_its_packages(project: Path) -> None:
    expected = ["pkg/__init__.py", "pkg/deep/__init__.py", "pkg/deep/scale.py"]
    assert found(project, "pkg.deep.scale:factor") == expected


@pytest.mark.parametrize("way", ["import pkg.deep.base", "from pkg.deep import base"])
def test_the_folder_of_the_layer_is_searched_from_everywhere(project: Path, way: str) -> None:
    """Python has it on its path while the layer runs, wherever the spec lies, and before the folder
    of a module that imports."""
    (project / "specs").mkdir()
    (project / "pkg/deep/other.py").write_text(f"{way}\nimport helpers\n")
    (project / "pkg/deep/helpers.py").touch()
    (project / "pkg/deep/base.py").touch()
    (project / "setting_up.py").write_text("from pkg import unused\n")
    files = imported_files(("../layers.py:Net", "setting_up:start"), str(project / "specs"))
    reached = {str(Path(file).relative_to(project)) for file in files}
    assert {"pkg/deep/base.py", "helpers.py", "setting_up.py", "pkg/unused.py"} <= reached
    assert "pkg/deep/helpers.py" not in reached


def test_headers_are_followed(project: Path) -> None:
    assert found(project, "layer.hpp:layer<T>") == ["inner/part.hpp", "layer.hpp"]


def test_a_library_is_none_of_the_project(project: Path) -> None:
    assert found(project, "torch.nn:Linear") == []
    assert file_of("torch.nn:Linear", str(project)) is None
    assert imports(str(project / "layers.py"), str(project)).libraries == {"torch"}
    assert imports(str(project / "pkg/lazily.py"), str(project)).libraries == {"numpy"}


def test_what_is_not_there_reaches_nothing(project: Path) -> None:
    assert found(project, "gone.py:f", "gone.module:f") == []
    assert imports(str(project / "gone.py"), str(project)) == ((), frozenset())


def test_a_change_of_the_imports_is_seen(project: Path) -> None:
    (project / "pkg/deep/scale.py").write_text("from pkg import unused\n")
    assert "pkg/unused.py" in found(project, "layers.py")


CODE = """
raise SystemExit  # it is never run

def function(x, w, scale=2.0, *, flag=False): ...

class Function:
    @staticmethod
    def forward(ctx, x, w): ...

class Module:
    def __init__(self, width): ...
    def forward(self, x, mask=None): ...

class Keras:
    def call(self, inputs, training): ...

class Other: ...

class Outer:
    class Inner:
        def __call__(self, a, /, b): ...

number = 3
"""


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("function", ["x", "w"]),
        ("Function", ["x", "w"]),
        ("Module", ["x"]),
        ("Keras", ["inputs"]),
        ("Outer.Inner", ["a", "b"]),
        ("Other", []),
        ("number", []),
        ("gone", []),
    ],
)
def test_names_of_inputs(name: str, names: list[str], tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text(CODE)
    assert input_names(f"layers.py:{name}", str(tmp_path)) == names


def test_code_that_is_not_here_or_no_python_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "layer.hpp").write_text("template <class T> T f(T x) { return x; }\n")
    for target in ("broken.py:f", "layer.hpp:f<T>", "torch.nn:Linear", "gone.py:f"):
        assert input_names(target, str(tmp_path)) == []
