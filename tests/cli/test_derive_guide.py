"""docs/guides/derive.md shows what the commands print."""

import re
from pathlib import Path

from .calling import call_here

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "derive.md").read_text("utf-8")
SPEC = re.compile(r"```yaml\n# sigmoid.yaml\n(.*?)```", re.S)
SCREEN = re.compile(r"```text\n\$ gradcheck (?P<command>.*?)\n(?P<shown>.*?)```", re.S)


def test_every_screen_of_the_guide_is_what_is_printed(tmp_path: Path) -> None:
    spec = SPEC.search(GUIDE)
    assert spec is not None
    (tmp_path / "sigmoid.yaml").write_text(spec[1], "utf-8")
    screens = list(SCREEN.finditer(GUIDE))
    assert len(screens) == 4
    for screen in screens:
        printed = call_here(*screen["command"].split(), cwd=tmp_path).out
        if screen["command"].startswith("curve"):
            # where exactly a point of the left arm lies belongs to the processor's exp
            assert printed.splitlines()[:3] == screen["shown"].splitlines()[:3]
            assert printed.splitlines()[-2:] == screen["shown"].splitlines()[-2:]
        else:
            assert printed.rstrip() == screen["shown"].rstrip()
