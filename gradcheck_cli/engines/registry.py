"""The registered engines. All come from the entry points `gradcheck.engines`, including ours; only
the reference engine, part of gradcheck itself, is known without them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, cached_property

from gradcheck_cli.domain.engines import SHIPPED
from gradcheck_cli.domain.evaluation import FIRST_ORDER
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.base import EVERY_DTYPE, Capabilities, Engine, make
from gradcheck_cli.engines.entry_points import REFERENCE, claims, targets
from gradcheck_cli.version import VERSION

_PARTS = ("capabilities", *sorted(n for n in vars(Engine) if not n.startswith("_")))


@dataclass(frozen=True, slots=True)
class Registered:
    """A registered engine.

    `target` is "module:Class". `version` is that of its framework, None if it is not installed.
    `engine` is made without importing the framework. If the entry point is broken it is None, and
    `fault` says why. `rivals` are other targets with the same name; they are not used.
    """

    name: str
    target: str
    engine: Engine | None
    version: str | None
    fault: str = ""
    rivals: tuple[str, ...] = ()

    @property
    def installed(self) -> bool:
        """Whether it can run: its framework and the tools that it needs are installed."""
        return self.engine is not None and not self.missing

    @property
    def by_default(self) -> bool:
        """Whether it runs if no engine is named."""
        return self.engine is not None and self.engine.capabilities.by_default

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages of its compiler; empty without one."""
        return self.engine.capabilities.stages if self.engine else ()

    @property
    def install(self) -> str:
        """The command that installs the framework; empty for a broken entry point."""
        return self.engine.capabilities.install if self.engine else ""

    @property
    def missing(self) -> tuple[tuple[str, str], ...]:
        """The missing requirements, each with the command that installs it."""
        if self.engine is None:
            return ()
        framework = () if self.version is not None else ((f"`{self.name}`", self.install),)
        tools = self.engine.capabilities.tools
        return (
            *framework,
            *((t.description, t.install) for t in tools if t.command() is None),
        )


def _version(distributions: tuple[str, ...]) -> str | None:
    if not distributions:
        return VERSION  # part of gradcheck itself
    from importlib import metadata

    for distribution in distributions:
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return None


def _register(name: str, target: str) -> Registered:
    rivals = () if name == "reference" else claims()[name][1:]
    try:
        engine = make(target)
        fault = _fault(name, engine)
        version = None if fault else _version(engine.capabilities.distributions)
    except Exception as error:  # a stranger's code: nothing that it raises may take the run down
        from gradcheck_cli.engines.tracebacks import one_line

        fault = one_line(error) if ":" in target else "its entry point names no class: module:Class"
    if fault:
        return Registered(name, target, None, None, fault, rivals)
    return Registered(name, target, engine, version, rivals=rivals)


def _fault(name: str, engine: object) -> str:
    """Why an object of a plug-in is not an engine with this name; empty if it is."""
    lacking = [part for part in _PARTS if not hasattr(engine, part)]
    if lacking:
        return f"it is not a gradcheck_cli.engines.base.Engine: it lacks {', '.join(lacking)}"
    can = engine.capabilities  # type: ignore[attr-defined]
    if not isinstance(can, Capabilities):
        return "its capabilities are not a gradcheck_cli.engines.base.Capabilities"
    if can.name != name:
        return f"its capabilities call it `{can.name}`, but its entry point `{name}`"
    for what, given, known in (
        ("mode", can.modes, FIRST_ORDER),
        ("order", can.orders, (1, 2, 3)),
        ("dtype", can.dtypes, EVERY_DTYPE),
    ):
        for one in given:
            if one not in known:
                there_are = ", ".join(map(str, known))
                return f"its capabilities name the {what} `{one}`; there are {there_are}"
    distributions: object = can.distributions
    if isinstance(distributions, str):
        return "the distributions of its capabilities are a string, but should be a tuple"
    return ""


class _Registry(Mapping[str, Registered]):
    """Makes an engine when it is first requested, which reads its table of operations. Entry points
    are scanned when the first engine other than the reference engine is requested."""

    def __init__(self) -> None:
        self._made: dict[str, Registered] = {}

    @cached_property
    def _targets(self) -> dict[str, str]:
        found = targets()
        order = [name for name in SHIPPED if name in found]
        order += sorted(name for name in found if name not in SHIPPED)
        return {"reference": REFERENCE, **{n: found[n] for n in order if n != "reference"}}

    def __getitem__(self, name: str) -> Registered:
        if name not in self._made:
            target = REFERENCE if name == "reference" else self._targets[name]
            self._made[name] = _register(name, target)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._targets)

    def __len__(self) -> int:
        return len(self._targets)


def default_engines(registered: Mapping[str, Registered]) -> Iterator[str]:
    """The engines that run if none is named and they are installed. Entry points are only scanned
    when the first name is taken."""
    return (name for name, found in registered.items() if found.by_default)


@cache
def engines() -> Mapping[str, Registered]:
    """Every registered engine by name: ours first, then the others in alphabetical order."""
    return _Registry()
