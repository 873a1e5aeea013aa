"""Fixtures for all tests, and what ``--fast`` leaves out."""

import gc
import os
import platform
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

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
    """``once("name", make)``: a folder that ``make(folder)`` fills once for the whole run."""

    def folder_of(name: str, make: Callable[[Path], object]) -> Path:
        with made_once(shared_folder / name) as missing:
            if missing:
                make(shared_folder / name)
        return shared_folder / name

    return folder_of


@pytest.fixture(scope="session")
def tiny_data(once: Once) -> Path:
    """Folder that ``fairseq-preprocess`` made (languages xx and yy), once for the run: 400 / 40 / 40 short sentences.

    The plain text of every split is next to it, in ``tiny_data.parent / "text"``. Neither is to be written to.
    """

    def make(root: Path) -> None:
        (root / "text").mkdir()
        make_corpus(root / "text", root / "bin")

    return once("tiny", make) / "bin"


@pytest.fixture(scope="session")
def short_data(once: Once) -> Path:
    """As the tiny corpus, in sentences of 2 to 4 of six words, which are learnt in seconds."""
    return once("short", lambda root: make_corpus(root, root / "bin", 4, 6)) / "bin"


@pytest.fixture(scope="session")
def zoo(shared_folder: Path, tiny_data: Path) -> Zoo:
    """``zoo("lstm_soft")``: a tiny trained model, trained once for the whole run (:mod:`zoo`)."""
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
    """A PATH whose commands start from a warm process (:mod:`warm`), for shell scripts."""
    folder = warm.folder_of_commands(tmp_path_factory.mktemp("warm"), usual_environment())
    return os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)])


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of the real corpora: $FAIRSEQ_ATTN_DATA, else ../shared/data next to the checkout."""
    folder = Path(os.environ.get("FAIRSEQ_ATTN_DATA") or REPO.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("NO REAL DATA: %s is not a folder; set FAIRSEQ_ATTN_DATA to the folder of the corpora" % folder)
    return folder


# --- --fast: the first case of each test, and none that starts a process, trains, or is slow


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="the first case of each test that starts no process")


@pytest.hookimpl(trylast=True)  # after the terminal has registered itself
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.getplugin("terminalreporter")
    if terminal is not None and config.getoption("fast"):
        terminal.reportchars = "fE"  # not a line for each test that would start something


def pytest_collection_modifyitems(config: pytest.Config, items: List[pytest.Item]) -> None:
    if not config.getoption("fast"):
        return
    platform.processor()  # what it asks of another process stays known
    sys.addaudithook(_start_nothing)
    first: Dict[str, pytest.Item] = {}
    for item in items:
        if not item.path.name.startswith("test_gpu") and not item.get_closest_marker("slow"):
            first.setdefault(item.nodeid.split("[")[0], item)
    kept = list(first.values())
    config.hook.pytest_deselected(items=[item for item in items if first.get(item.nodeid.split("[")[0]) is not item])
    items[:] = kept


def _start_nothing(event: str, arguments: Any) -> None:
    if event in ("subprocess.Popen", "tests.run_tool") and "PYTEST_CURRENT_TEST" in os.environ:
        pytest.skip("--fast: starts a process or trains a model")


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # nothing that was imported is garbage: no later collection looks at it


@pytest.fixture
def bfloat16(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Products are computed in bfloat16 where a test asks for it, whatever the machine."""
    from fairseq_attn_plugin.ops import packed, precision

    precision._of_this_machine.cache_clear()
    for module in (precision, packed):
        monkeypatch.setattr(module, "has_bfloat16", lambda device: True)
    yield
    precision._of_this_machine.cache_clear()
