"""The pytest plugin: fleets as fixtures (doc/testing.md).

pytest imports this module in all projects where fakedev is installed. So it imports the rest of fakedev only when a
test asks for a fleet.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pytest

if TYPE_CHECKING:
    from fakedev.testing.in_reactor import ReactorFleet
    from fakedev.testing.order import Order
    from fakedev.testing.served_fleet import ServedFleet, Starter
    from fakedev.testing.simulation import Simulation

    T = TypeVar("T", ServedFleet, Simulation, ReactorFleet)

#: The fleets that a test uses.
_FLEETS: pytest.StashKey[list[ServedFleet | Simulation | ReactorFleet]] = pytest.StashKey()
#: Starts the services of this run; there once a test has asked for one.
_STARTER: pytest.StashKey[Starter] = pytest.StashKey()
#: The services that tests share, by what they are; and the folders of failed tests.
_SHARED: pytest.StashKey[dict[Order, ServedFleet]] = pytest.StashKey()
_KEPT: pytest.StashKey[set[Path]] = pytest.StashKey()
#: Whether a test has failed.
_FAILED = pytest.StashKey[bool]()
_MARKER = (
    "fakedev(config=None, identity=None, set=[], scenario=None, replay=[]): the fleet of fakedev_fleet: the file or "
    "the text of a configuration, the identity of all its pools, values as of --set, and what is played"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our options."""
    group = parser.getgroup("fakedev")
    group.addoption(
        "--fakedev-timeout", type=float, default=30.0, metavar="SECONDS",
        help="how long a fakedev may take to start, and to answer, default 30",
    )  # fmt: skip
    group.addoption(
        "--fakedev-keep", action="store_true",
        help="keep configuration, record and log of every fleet, not only those of failed tests",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Make our marker known."""
    config.addinivalue_line("markers", _MARKER)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the services that tests have shared, and what starts services."""
    for fleet in config.stash.get(_SHARED, {}).values():
        _end_shared(config, fleet)
    starter = config.stash.get(_STARTER, None)
    if starter is not None:
        starter.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the fleets of a failed test tell."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
        for fleet in item.stash.get(_FLEETS, []) if report.when != "teardown" else []:
            report.sections += [(f"fakedev {title}", text) for title, text in fleet.report()]
    return report


@pytest.fixture
def fakedev_fleet_factory(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., ServedFleet]]:
    """A function that starts a fleet; it takes what the marker takes. All fleets end with the test."""
    from fakedev.testing.served_fleet import CannotStart  # noqa: PLC0415 - only if a test asks for it

    yield from _factory(request, tmp_path_factory, partial(_served, request.config), CannotStart)


@pytest.fixture
def fakedev_fleet(request: pytest.FixtureRequest, fakedev_fleet_factory: Callable[..., ServedFleet]) -> ServedFleet:
    """A service in a process of its own: a node of eight H100 whose clock stands, or what the marker asks for."""
    return fakedev_fleet_factory(**_marked(request))


@pytest.fixture
def fakedev_fleet_session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServedFleet]:
    """As fakedev_fleet, but all tests that ask for the same fleet share a service, which is reset before each."""
    from fakedev.testing.served_fleet import CannotStart  # noqa: PLC0415

    shared = request.config.stash.setdefault(_SHARED, {})
    try:
        order = _order(request, _marked(request))
        fleet = shared.get(order)
        if fleet is None or not fleet.begin_again():
            if fleet is not None:
                _end_shared(request.config, fleet)
            fleet = shared[order] = _served(request.config, order, tmp_path_factory.mktemp("fakedev"))
            fleet.begin_again()
    except (ValueError, CannotStart) as error:
        problem = str(error)
    else:
        request.node.stash.setdefault(_FLEETS, []).append(fleet)
        yield fleet
        if request.node.stash.get(_FAILED, False):
            request.config.stash.setdefault(_KEPT, set()).add(fleet.folder)
        return
    _fail(request, problem)


@pytest.fixture
def fakedev_sim(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    """The same fleet in the test's process, without any socket."""
    from fakedev.schema.places import ConfigurationError  # noqa: PLC0415
    from fakedev.testing.simulation import Simulation  # noqa: PLC0415

    def make(order: Order, folder: Path) -> Simulation:
        return Simulation(_replayed(order, folder), folder)

    for start in _factory(request, tmp_path_factory, make, ConfigurationError):
        yield start(**_marked(request))


@pytest.fixture
def fakedev_twisted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReactorFleet]:
    """The same service in the reactor of the test, for projects with pytest-twisted; its methods are coroutines."""
    try:
        request.getfixturevalue("twisted_greenlet")
    except pytest.FixtureLookupError:
        _fail(request, "fakedev_twisted needs the plugin pytest-twisted: pip install pytest-twisted")
    import pytest_twisted  # type: ignore[import-untyped]  # noqa: PLC0415 - it has no types

    from fakedev.schema.places import ConfigurationError  # noqa: PLC0415
    from fakedev.testing.in_reactor import ReactorFleet  # noqa: PLC0415
    from fakedev.testing.served_fleet import CannotStart  # noqa: PLC0415

    timeout_seconds = request.config.getoption("--fakedev-timeout")

    def make(order: Order, folder: Path) -> ReactorFleet:
        return ReactorFleet(_written(order, folder), folder, timeout_seconds, pytest_twisted.blockon)

    for start in _factory(request, tmp_path_factory, make, CannotStart, ConfigurationError):
        yield start(**_marked(request))


def _served(config: pytest.Config, order: Order, folder: Path) -> ServedFleet:
    """A service of its own.

    :raises CannotStart: when it does not come up.
    """
    from fakedev.testing.served_fleet import ServedFleet, Starter  # noqa: PLC0415

    starter = config.stash.get(_STARTER, None)
    if starter is None or not starter.is_running:
        starter = config.stash[_STARTER] = Starter()
    return ServedFleet(_written(order, folder), folder, config.getoption("--fakedev-timeout"), starter)


def _written(order: Order, folder: Path) -> Order:
    """An order whose configuration is a file.

    :raises ValueError: when it is a trace that cannot be replayed.
    """
    return _replayed(order, folder).with_file(folder)


def _replayed(order: Order, folder: Path) -> Order:
    if not order.replay:
        return order
    from fakedev.schema.places import ConfigurationError  # noqa: PLC0415
    from fakedev.testing.order import with_scenario  # noqa: PLC0415

    try:
        return with_scenario(order, folder)
    except ConfigurationError as error:
        raise ValueError(str(error)) from None


def _end_shared(config: pytest.Config, fleet: ServedFleet) -> None:
    """End a service that tests have shared; its folder stays when one of them has failed."""
    fleet.close()
    if not config.getoption("--fakedev-keep") and fleet.folder not in config.stash.get(_KEPT, set()):
        shutil.rmtree(fleet.folder, ignore_errors=True)


def _order(request: pytest.FixtureRequest, given: dict[str, Any]) -> Order:
    """What a test asks for.

    :raises ValueError: for arguments that are none.
    """
    from fakedev.testing.order import Order  # noqa: PLC0415

    return Order.of(given, [request.path.parent, request.config.rootpath])


def _factory(
    request: pytest.FixtureRequest, folders: pytest.TempPathFactory, make: Callable[[Order, Path], T],
    *trouble: type[Exception],
) -> Iterator[Callable[..., T]]:
    """A function that makes fleets, each with a folder; afterwards they are closed and their folders removed.

    :param make: raises one of ``trouble``, whose text says why a fleet cannot be made.
    """  # fmt: skip
    refused: tuple[type[Exception], ...] = (ValueError, *trouble)
    fleets = request.node.stash.setdefault(_FLEETS, [])
    used: list[tuple[T | None, Path]] = []

    def start(**given: Any) -> T:
        fleet = None
        try:
            order = _order(request, given)
            folder = folders.mktemp("fakedev")
            try:
                fleet = make(order, folder)
            finally:
                used.append((fleet, folder))
        except refused as error:
            problem = str(error)
        else:
            fleets.append(fleet)
            return fleet
        _fail(request, problem)

    yield start
    is_kept = request.config.getoption("--fakedev-keep") or request.node.stash.get(_FAILED, False)
    for fleet, folder in used:
        if fleet is not None:
            fleet.close()
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)


def _marked(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The arguments of the marker."""
    marker = request.node.get_closest_marker("fakedev")
    if marker is not None and marker.args:
        _fail(request, f"the marker takes only keyword arguments, as config=...: not {marker.args[0]!r}")
    return {} if marker is None else dict(marker.kwargs)


def _fail(request: pytest.FixtureRequest, text: str) -> NoReturn:
    """Fail the test without a traceback: the fault is in its line, not in ours."""
    path, line, _ = request.node.location
    pytest.fail(f"{path}:{(line or 0) + 1}: fakedev: {text}", pytrace=False)
