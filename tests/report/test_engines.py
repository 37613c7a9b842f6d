from gradcheck_cli.engines.base import Capabilities, Tool
from gradcheck_cli.engines.reference.engine import ReferenceEngine
from gradcheck_cli.engines.registry import Registered
from gradcheck_cli.report.engines import engine_lines, engines_as_json
from gradcheck_cli.report.style import Style

COMPILER = Tool("a compiler of dreams", ("no-such-program",), "sudo apt install dreams")


class Dreamer(ReferenceEngine):
    capabilities = Capabilities("dreamer", (), "pip x", tools=(COMPILER,), by_default=False)


ENGINES = {
    "reference": Registered("reference", "", ReferenceEngine(), "1.0"),
    "dreamer": Registered("dreamer", "", Dreamer(), "2.0"),
    "bang": Registered("bang", "", None, None, "OSError: libbang.so is missing"),
}


def lines(width: int) -> list[str]:
    return [line.plain for line in engine_lines(ENGINES, Style(width=width))]


def test_a_missing_tool_is_named_with_the_line_that_installs_it() -> None:
    shown = lines(120)
    at = shown.index("dreamer needs a compiler of dreams: there is none")
    assert shown[at + 1] == "  install  sudo apt install dreams"
    assert not ENGINES["dreamer"].installed


def test_what_runs_only_when_named_and_what_is_broken() -> None:
    shown = lines(120)
    assert "only when named  dreamer (--engine dreamer)" in shown
    assert "bang             cannot be used: OSError: libbang.so is missing" in shown


def test_a_row_is_one_line_of_a_log() -> None:
    row = next(line for line in lines(120) if line.startswith("reference"))
    assert "float16, bfloat16, float32, float64   cpu" in row


def test_a_narrow_screen_is_kept_to() -> None:
    assert max(len(line) for line in lines(44)) <= 44


def test_json_says_the_same() -> None:
    told = {engine["name"]: engine for engine in engines_as_json(ENGINES)["engines"]}
    assert told["dreamer"]["by_default"] is False
    assert told["dreamer"]["missing"] == [
        {"what": "a compiler of dreams", "install": "sudo apt install dreams"}
    ]
    assert told["bang"] == {
        "name": "bang",
        "installed": False,
        "fault": "OSError: libbang.so is missing",
        "not_used": [],
    }
