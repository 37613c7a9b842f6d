from pathlib import Path

import pytest

from gradcheck_cli.run.workers import pool


@pytest.mark.parametrize(
    ("text", "count"), [("150000 100000", 1.5), ("max 100000", float("inf")), ("", float("inf"))]
)
def test_what_a_container_is_granted(tmp_path: Path, text: str, count: float) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(text)
    assert pool._cpu_limit(file) == count


def test_there_is_a_processor() -> None:
    assert pool.cores() >= 1
