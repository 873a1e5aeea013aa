"""Fixtures for all tests, and markers that tests get by what they use.

``tiny_data``    a tiny binarised corpus (languages xx and yy), made once for the whole run
``short_data``   a corpus that is learnt in seconds, likewise
``zoo``          ``zoo("lstm_soft")``: a tiny trained model, trained once for the whole run (:mod:`zoo`)
``once``         ``once("name", make)``: a folder that ``make(folder)`` fills once for the whole run
``warm_path``    a PATH whose commands start from a warm process (:mod:`warm`), for shell scripts
``real_data``    the folder of the real corpora, where there is one
``bfloat16``     products are computed in bfloat16 where a test asks for it, whatever the machine

Markers. A test that reaches :mod:`cli` or :mod:`subprocess` through its functions and fixtures gets ``cli``, one that
reaches :mod:`browser` gets ``browser``, the tests of a file ``test_gpu*.py`` get ``gpu``. ``slow`` is written by hand.
"""

import gc
import inspect
import os
import types
from pathlib import Path
from typing import Any, Callable, Dict, FrozenSet, Iterator, List

# one thread for this process and those that it starts, before anything imports torch: tests run in parallel, and sums
# are the same in batches of any size
os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import pytest
import warm
from reversal import make_corpus
from zoo import Zoo, made_once, open_zoo

from cli import REPO, usual_environment

Once = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that all workers of this run have in common."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def once(shared_folder: Path) -> Once:
    def folder_of(name: str, make: Callable[[Path], object]) -> Path:
        with made_once(shared_folder / name) as missing:
            if missing:
                make(shared_folder / name)
        return shared_folder / name

    return folder_of


@pytest.fixture(scope="session")
def tiny_data(once: Once) -> Path:
    """Folder that ``fairseq-preprocess`` made (languages xx and yy): 400 / 40 / 40 short sentences.

    The plain text of every split is next to it, in ``tiny_data.parent / "text"``. Neither is to be written to.
    """

    def make(root: Path) -> None:
        (root / "text").mkdir()
        make_corpus(root / "text", root / "bin")

    return once("tiny", make) / "bin"


@pytest.fixture(scope="session")
def short_data(once: Once) -> Path:
    """As the tiny corpus, in sentences of 2 to 4 of six words."""
    return once("short", lambda root: make_corpus(root, root / "bin", 4, 6)) / "bin"


@pytest.fixture(scope="session")
def zoo(shared_folder: Path, tiny_data: Path) -> Zoo:
    return open_zoo(shared_folder / "zoo", lambda: tiny_data)


@pytest.fixture(scope="session", autouse=True)
def commands_stay_warm() -> Iterator[None]:
    """A variable that a test or an import leaves behind would make every later command cold, and so the run long."""

    def read() -> Dict[str, str]:
        return {name: value for name, value in usual_environment().items() if name.startswith(warm.READ_AT_START)}

    before = read()
    yield
    assert read() == before


@pytest.fixture(scope="session")
def warm_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = warm.folder_of_commands(tmp_path_factory.mktemp("warm"), usual_environment())
    return os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)])


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of the real corpora: $FAIRSEQ_ATTN_DATA, else ../shared/data next to the checkout."""
    folder = Path(os.environ.get("FAIRSEQ_ATTN_DATA") or REPO.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("NO REAL DATA: %s is not a folder; set FAIRSEQ_ATTN_DATA to the folder of the corpora" % folder)
    return folder


# --- failures


class FailuresAtOnce:
    """Names a test as soon as it fails, so that a run that is cut off has said which did."""

    def __init__(self, terminal: Any):
        self.terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            error = report.longreprtext.strip().splitlines() or [""]
            lines = [line for line in error if line.startswith("E ")] or error[-1:]
            self.terminal.ensure_newline()
            self.terminal.write_line(
                f"FAILED {report.nodeid} ({report.when}, {report.duration:.0f} s): {lines[0][:200]}"
            )


@pytest.hookimpl(trylast=True)  # after the terminal has registered itself
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.getplugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailuresAtOnce(terminal), "failures at once")


# --- markers

_MARKED_MODULES = {"cli": "cli", "subprocess": "cli", "browser": "browser"}


def pytest_collection_modifyitems(items: List[pytest.Item]) -> None:
    known: Dict[Any, FrozenSet[str]] = {}
    for item in items:
        functions = [getattr(item, "function", None)]
        definitions: Dict[str, Any] = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
        functions += [one.func for all_of_a_name in definitions.values() for one in all_of_a_name]
        for marker in sorted(frozenset().union(*(_reached(function, known) for function in functions))):
            item.add_marker(marker)
        if item.path.name.startswith("test_gpu"):
            item.add_marker("gpu")


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # nothing that was imported is garbage: no later collection looks at it


def _reached(value: Any, known: Dict[Any, FrozenSet[str]]) -> FrozenSet[str]:
    """The markers of what a function or class of the tests calls, followed through the others."""
    value = inspect.unwrap(value) if callable(value) else value
    module = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    if isinstance(value, types.ModuleType) or module in _MARKED_MODULES:
        marked = module in _MARKED_MODULES and module != "cli" or isinstance(value, (types.FunctionType, type))
        return frozenset([_MARKED_MODULES[module]] if marked and value.__name__ not in _HARMLESS else [])
    if not isinstance(value, (types.FunctionType, type)) or not _is_of_tests(value):
        return frozenset()
    if value not in known:
        known[value] = frozenset()  # a circle adds nothing
        if isinstance(value, type):
            parts = [one for one in vars(value).values() if isinstance(one, types.FunctionType)]
        else:
            parts = [value.__globals__.get(name) for name in _names(value.__code__)]
        known[value] = frozenset().union(*(_reached(one, known) for one in parts))
    return known[value]


_HARMLESS = {"usual_environment", "words_of", "CliError"}


def _is_of_tests(value: Any) -> bool:
    try:
        return REPO / "tests" in Path(inspect.getfile(value)).resolve().parents
    except (TypeError, OSError):
        return False


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


@pytest.fixture
def bfloat16(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from fairseq_attn_plugin.ops import packed, precision

    precision._of_this_machine.cache_clear()
    for module in (precision, packed):
        monkeypatch.setattr(module, "has_bfloat16", lambda device: True)
    yield
    precision._of_this_machine.cache_clear()
