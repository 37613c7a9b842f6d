"""Code that one machine has runs on another, and reports name it alike."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import pytest

from gradcheck_cli import specfile
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.run.executors import node
from gradcheck_cli.run.executors.node import shipped, unpack

LAYERS = """
from parts.factor import factor

class Scale:
    def forward(self, x):
        return factor * x

    def backward(self, y_bar, x):
        return 3 * y_bar
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spec:
    """Of a layer in another folder than the working one, which imports a module of the project."""
    (tmp_path / "deep/parts").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    (tmp_path / "deep/layers.py").write_text(LAYERS)
    (tmp_path / "deep/parts/factor.py").write_text("factor = 2.0\n")
    text = "name: scale\ninputs: {x: [1.0, 2.0]}\nimplementations: {numpy: layers.py:Scale}\n"
    (tmp_path / "deep/scale.yaml").write_text(text)
    monkeypatch.chdir(tmp_path / "work")
    (found,), errors = specfile.read("../deep/scale.yaml")
    assert not errors
    return found


def test_files_stand_where_they_stood_from_the_working_folder(spec: Spec, tmp_path: Path) -> None:
    parcel = shipped([spec, spec])
    there = tmp_path / "there"
    project = there / tmp_path.relative_to("/")
    folder = unpack(parcel, there)
    assert folder == project / "work"
    assert {there / name for name in parcel.files} == {
        project / "deep/layers.py",
        project / "deep/parts/factor.py",
    }
    (layer,) = parcel.specs[0].implementations
    assert (folder / layer.folder / "layers.py").read_text() == LAYERS
    before = os.stat(project / "deep/layers.py").st_mtime_ns
    assert unpack(parcel, there) == folder
    assert os.stat(project / "deep/layers.py").st_mtime_ns == before


def test_a_node_needs_nothing_of_the_client_but_what_it_sent(spec: Spec, tmp_path: Path) -> None:
    options = RunOptions(engines=Layered(override=("numpy",)), jobs=1)
    parcel = pickle.dumps(("a run", options, shipped([spec])))
    shutil.rmtree(tmp_path / "deep")
    _, (result,) = node.examine(parcel)
    room = node._mine.room
    assert room is not None
    room.leave()
    node._mine.room = None
    assert {finding.code for finding in result.findings} == {Codes.WRONG_GRADIENT}
    assert result.source.path == "../deep/scale.yaml"
    assert not room.root.exists()
