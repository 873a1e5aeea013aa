"""What set-up installs: pins for every supported Python, fairseq by hash, the choice of a Python."""

import importlib.metadata as metadata
import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
from unittest import mock

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from cli import REPO

PYTHONS = ("3.11", "3.12", "3.13")
LINUX = {"sys_platform": "linux", "platform_machine": "x86_64"}
ELSEWHERE = [{"sys_platform": "linux", "platform_machine": "aarch64"}, {"sys_platform": "darwin"}]


def lines_of(name):
    text = (REPO / name).read_text(encoding="utf-8").replace("\\\n", "")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def applies(requirement, python, machine=LINUX):
    return requirement.marker is None or requirement.marker.evaluate({"python_version": python, **machine})


@pytest.mark.parametrize("python", PYTHONS)
def test_every_pin_is_exact_and_stands_once(python):
    pins = [pin for pin in map(Requirement, lines_of("constraints.txt")) if applies(pin, python)]
    names = [canonicalize_name(pin.name) for pin in pins]
    assert len(names) > 100 and len(set(names)) == len(names)
    assert all(str(pin.specifier).startswith("==") for pin in pins)


def test_pinned_packages_take_every_python_from_the_oldest():
    """pip passes over a release that wants a later Python, and then searches for minutes for another set."""
    pins = {canonicalize_name(pin.name): pin.specifier for pin in map(Requirement, lines_of("constraints.txt"))}
    here = {canonicalize_name(one.metadata["Name"]): one for one in metadata.distributions()}
    seen = [here[name] for name in pins if name in here and here[name].version.split("+")[0] in pins[name]]
    late = [one.name for one in seen if "3.11.0" not in SpecifierSet(one.metadata.get("Requires-Python") or "")]
    assert late == [] and len(seen) > 50


def fairseqs():
    """name -> requirement and hashes of fairseq.txt."""
    found = {}
    for line in lines_of("fairseq.txt"):
        words, *hashes = re.split(r"\s+--hash=", line.strip())
        requirement = Requirement(words)
        found[requirement.name] = (requirement, hashes)
    return found


def test_fairseq_is_pinned_by_hash():
    for requirement, hashes in fairseqs().values():
        assert str(requirement.specifier).startswith("==") and len(hashes) == 2
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", found) for found in hashes)


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("machine", [LINUX, *ELSEWHERE], ids=lambda machine: " ".join(machine.values()))
def test_one_fairseq_is_chosen_everywhere_and_setup_py_agrees(python, machine):
    machine = {"platform_machine": "arm64", **machine}
    (pinned,) = [one for one, _ in fairseqs().values() if applies(one, python, machine)]
    assert (pinned.name == "ve-fairseq") == (machine == LINUX and python != "3.13")
    path = REPO / "setup.py"
    with mock.patch("setuptools.setup") as called:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), {"__file__": str(path)})
    declared = map(Requirement, called.call_args.kwargs["install_requires"])
    (wanted,) = [one for one in declared if "fairseq" in one.name and applies(one, python, machine)]
    assert wanted.name == pinned.name
    assert str(pinned.specifier).lstrip("=") in wanted.specifier


# --- the Python that scripts/setup.sh takes


def stand_in(folder, name, version="", cpu_torch=False):
    """A program that answers as a Python of that version, until it is asked to make an environment."""
    (folder / name).write_text(
        f"""#!/bin/bash
case "$*" in
  *venv*) echo "made by {name}"; exit 7 ;;
  *ensurepip*) exit {0 if version else 1} ;;
  *"pip index"*) echo "Available versions: 2.99.0, {"$TORCH_CPU" if cpu_torch else "2.99.0+cpu"}"
    printf '%0300000d\\n' 0 ;;  # more than a pipe holds: a reader that stops at the version would end this program
  *version_info*) echo {version} ;;
  *hashlib*) cat >/dev/null; echo hash ;;
esac
"""
    )
    (folder / name).chmod(0o755)


def setup_with(tmp_path, gpu=False, system="Linux", pythons=(), **environment):
    """Runs set-up in a copy of the checkout with these Pythons alone, as far as the environment: (status, stderr)."""
    checkout, tools = tmp_path / "checkout", tmp_path / "bin"
    (checkout / "scripts").mkdir(parents=True, exist_ok=True)
    tools.mkdir()
    for name in ("setup.py", "constraints.txt", "fairseq.txt", "scripts/setup.sh"):
        (checkout / name).write_bytes((REPO / name).read_bytes())
    for name in ("bash", "sed", "dirname", "cat", "grep"):
        (tools / name).symlink_to(shutil.which(name))
    (tools / "uname").write_text(f"#!/bin/bash\necho {shlex.quote(system)}\n")
    (tools / "nvidia-smi").write_text(f"#!/bin/bash\nexit {0 if gpu else 9}\n")
    for name in ("uname", "nvidia-smi"):
        (tools / name).chmod(0o755)
    for name, *answers in pythons:
        stand_in(tools, name, *answers)
    (torch,) = re.findall(r"^torch==(.*)$", (REPO / "constraints.txt").read_text(), re.MULTILINE)
    done = subprocess.run(
        ["bash", str(checkout / "scripts" / "setup.sh")],
        env={"PATH": str(tools), "TORCH_CPU": torch + "+cpu", **environment},
        text=True,
        capture_output=True,
    )
    return done.returncode, done.stdout + done.stderr


ALL = [("python3.11", "3.11"), ("python3.12", "3.12"), ("python3.13", "3.13")]
ONE_WITH_WHEELS = [("python3.11", "3.11", True), *ALL[1:]]


@pytest.mark.parametrize(
    ("pythons", "options", "chosen", "reason"),
    [
        (ALL, {"system": "Darwin"}, "python3.12", "the first of 3.12, 3.11, 3.13 here)"),
        (ALL, {}, "python3.12", "the first of 3.12, 3.11, 3.13 here)"),
        (ONE_WITH_WHEELS, {}, "python3.11", "pip offers a CPU build of torch for it"),
        (ONE_WITH_WHEELS, {"gpu": True}, "python3.12", "the first of 3.12"),
        ([("python3.11", "3.11"), ("python3.12", "")], {"gpu": True}, "python3.11", "the first of 3.12"),
        (ALL, {"PYTHON": "python3.13"}, "python3.13", "chosen by PYTHON"),
    ],
)
def test_the_python_of_set_up(tmp_path, pythons, options, chosen, reason):
    status, text = setup_with(tmp_path, pythons=pythons, **options)
    assert status == 7 and f"made by {chosen}\n" in text
    assert f"with Python {chosen[6:]} ({chosen}: " in text and reason in text


@pytest.mark.parametrize(
    ("own", "reachable", "options", "expected"),
    [
        (False, True, {}, "install -c constraints.txt torch --extra-index-url https://wheels --retries 1 --timeout 20"),
        (False, False, {}, "install -c constraints.txt torch"),
        (True, True, {}, "install -c constraints.txt torch"),
        (False, True, {"gpu": True}, "install -c constraints.txt torch"),
        (False, True, {"system": "Darwin"}, "install -c constraints.txt torch"),
    ],
    ids=["from its index", "index out of reach", "from pip's own index", "a GPU", "no Linux"],
)
def test_without_a_gpu_torch_is_a_build_for_processors(tmp_path, own, reachable, options, expected):
    python = tmp_path / "checkout" / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    has = {True: "$TORCH_CPU", False: "2.99.0+cpu"}
    python.write_text(
        f"""#!/bin/bash
case "$*" in
  *"pip index"*"--extra-index-url https://wheels"*) echo "Available versions: {has[reachable]}" ;;
  *"pip index"*) echo "Available versions: {has[own]}" ;;
  *" torch"*) echo "pip: ${{*:5}}"; exit 7 ;;
  *hashlib*) cat >/dev/null; echo hash ;;
  *version_info*) echo 3.12 ;;
esac
"""
    )
    python.chmod(0o755)
    status, text = setup_with(tmp_path, CPU_WHEELS="https://wheels", **options)
    assert status == 7 and f"pip: {expected}\n" in text
    assert ("torch comes with CUDA, several GB" in text) == (not own and not reachable)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "there is no python3.12, python3.11 or python3.13 with ensurepip"),
        ({"PYTHON": "python3.10"}, "PYTHON=python3.10 is no Python 3.11 or newer that runs and has ensurepip"),
    ],
)
def test_without_a_python_set_up_says_so(tmp_path, options, message):
    status, text = setup_with(tmp_path, pythons=[("python3.10", "")], **options)
    assert status == 1 and text.startswith("setup: " + message) and len(text.splitlines()) == 1


@pytest.mark.parametrize("name", ["demo.sh", "docs.sh", "test.sh"])
def test_other_scripts_leave_environments_outside_of_the_checkout_alone(name, tmp_path):
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "setup.sh").write_text('echo "$VENV"; exit 7')
    shutil.copy(REPO / "scripts" / name, scripts)
    environment = {"PATH": os.defpath, "VENV": "/mine"}
    done = subprocess.run(["bash", str(scripts / name)], env=environment, text=True, capture_output=True)
    assert (done.returncode, done.stdout) == (7, ".venv\n"), done.stderr


@pytest.mark.parametrize("lacks", ["pip", "3.11", "Python"])
def test_an_environment_that_cannot_be_used_is_to_be_removed(tmp_path, lacks):
    folder = tmp_path / "checkout" / ".venv"
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    if lacks == "Python":  # it was uninstalled
        python.unlink()
        python.symlink_to("/nowhere/python3")
    if lacks == "3.11":  # this Python and its pip, under an older number
        python.unlink()
        older = "import sys; sys.version_info = (3, 10, 14); exec(sys.argv[1])"
        python.write_text(f'#!/bin/bash\nexec {shlex.join([sys.executable, "-c", older])} "$2"\n')
        python.chmod(0o755)
    status, text = setup_with(tmp_path, pythons=ALL, PYTHON="python3.11")
    assert status == 1 and text.count("\n") == 1
    assert text.startswith(f"setup: {folder} has no Python 3.11 or newer with pip") and ": remove .venv\n" in text
