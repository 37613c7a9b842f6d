"""Hostile layers: one run in every run of the tests, and what the fuzzer must see."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import layers
from tests.fuzz.hostile import BEHAVIOURS, IMPORTS, source
from tests.fuzz.layers import TOKEN, Hostile, Layers, faults_of, survivors

ALONE = {"right": ("passed", []), "wrong": ("failed", [("GC101", "float32", "reverse")])}


def _result(name: str, status: str, *codes: str) -> dict[str, Any]:
    findings = [{"code": code, "dtype": "float32", "mode": "reverse"} for code in codes]
    return {"spec": name, "status": status, "findings": findings}


@pytest.mark.parametrize(
    ("hostile", "wrong", "told"),
    [
        ("failed", ["GC101"], []),
        ("passed", ["GC101"], ["`returns None` passes"]),
        ("failed", [], ["`wrong` gets"]),
        ("failed", ["GC701"], ["`wrong` gets"]),
    ],
)
def test_verdicts_that_are_not_those_alone_are_found(
    monkeypatch: pytest.MonkeyPatch, hostile: str, wrong: list[str], told: list[str]
) -> None:
    def ran(folder: Path) -> tuple[Any, list[str]]:
        (folder / "hostile0.py.met").touch()
        results = [
            _result("hostile0", hostile, *(["GC109"] if hostile == "failed" else [])),
            _result("right", "passed"),
            _result("wrong", "failed" if wrong else "passed", *wrong),
        ]
        return {"results": results}, []

    monkeypatch.setattr(layers, "run_in", ran)
    monkeypatch.setattr(layers, "alone", lambda framework: ALONE)
    faults = faults_of("torch", Hostile("returns None", 1, 0))
    assert len(faults) == len(told)
    assert all(fault.startswith(start) for fault, start in zip(faults, told, strict=True))


@pytest.mark.parametrize(("culprits", "found"), [({"b"}, [1]), (set(), [0]), ({"a", "c"}, [0, 2])])
def test_a_fault_of_a_shared_run_is_that_of_who_has_it_alone(
    monkeypatch: pytest.MonkeyPatch, culprits: set[str], found: list[int]
) -> None:
    monkeypatch.setattr(layers, "BEHAVIOURS", dict.fromkeys("abc", BEHAVIOURS["stays quiet"]))
    group = {k: Hostile(name, 1, 0) for k, name in enumerate("abc")}

    def faults(framework: str, *hostile: Hostile) -> list[str]:
        return ["bad"] if len(hostile) == 3 or hostile[0].name in culprits else []

    monkeypatch.setattr(layers, "faults_of", faults)
    assert [finding.index for finding in Layers()._findings("torch", group)] == found


def test_what_a_run_leaves_running_is_found_and_ended() -> None:
    left = subprocess.Popen(["sleep", "60"], env={TOKEN: "planted"}, start_new_session=True)
    while not Path(f"/proc/{left.pid}/environ").read_bytes():
        time.sleep(0.01)  # a process that begins a program has no environment for a moment
    layers_before = layers._ENDING_S
    try:
        layers._ENDING_S = 0.2
        assert survivors("planted") == ["left running: sleep 60 "]
    finally:
        layers._ENDING_S = layers_before
    assert left.wait(5) == -9
    assert survivors("planted") == []


@pytest.mark.exhaustive
def test_a_layer_that_ends_its_process_is_alone_with_it() -> None:
    fuzzer = Layers()
    chosen = next(i for i in range(len(BEHAVIOURS)) if "os._exit(3)" in fuzzer.input(20, i)[1])
    with fuzzer:
        assert [finding.says for finding in fuzzer.check(20, [chosen])] == []


@pytest.mark.parametrize("framework", IMPORTS)
def test_every_behaviour_is_code(framework: str) -> None:
    for name, behaviour in BEHAVIOURS.items():
        if behaviour.only in ("", framework):
            compile(source(behaviour, framework, 3), name, "exec")
