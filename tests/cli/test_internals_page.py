"""docs/internals.md shows what the command prints; `...` stands for what it leaves out."""

import re
from pathlib import Path

from .calling import call_here, lasting

PAGE = (Path(__file__).parents[2] / "docs" / "internals.md").read_text("utf-8")


def test_the_worked_example_is_what_is_printed(tmp_path: Path) -> None:
    spec = re.search(r"```yaml\n# loss.yaml\n(.*?)```", PAGE, re.S)
    screen = re.search(r"```text\n\$ gradcheck (.*?)\n(.*?)```", PAGE, re.S)
    assert spec is not None
    assert screen is not None
    (tmp_path / "loss.yaml").write_text(spec[1], "utf-8")
    printed = iter(lasting(call_here(*screen[1].split(), cwd=tmp_path).out).splitlines())
    for line in lasting(screen[2]).splitlines():
        assert line.strip() == "..." or line in printed, line
