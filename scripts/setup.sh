#!/usr/bin/env bash
# Makes the virtual environment .venv in the checkout, ready to train and to run the tests. A second call returns at once.
#
#   bash scripts/setup.sh
#   PYTHON=python3.13 bash scripts/setup.sh     another Python, 3.11 or newer
#
# Settings (environment variables, with their defaults):
#   PYTHON=       (none) the first of python3.12, python3.11, python3.13 that is there. On Linux without an NVIDIA GPU,
#                 one for which pip offers a CPU build of torch comes first: the other builds are several GB.
#   VENV=.venv    folder of the environment
#   CPU_WHEELS=https://download.pytorch.org/whl/cpu    where CPU builds of torch come from if pip's own index has none
#
# fairseq.txt says which fairseq is installed, and why; constraints.txt pins everything else.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV="${VENV:-.venv}" CPU_WHEELS="${CPU_WHEELS:-https://download.pytorch.org/whl/cpu}"
[[ $VENV == /* ]] || VENV="$PWD/$VENV"
STAMP="$VENV/.setup-stamp"
TORCH="$(sed -n 's/^torch==//p' constraints.txt)"

say() { printf 'setup: %s\n' "$*" >&2; }
usable() { command -v "$1" >/dev/null && "$1" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
wants_cpu_torch() { [[ $(uname -s) == Linux ]] && ! nvidia-smi >/dev/null 2>&1; }
# has_cpu_torch PYTHON [options of pip]
has_cpu_torch() { [[ "$("$1" -m pip index versions torch "${@:2}" 2>/dev/null)" == *"$TORCH+cpu"* ]]; }

# sets PYTHON and REASON
choose_python() {
    local name found=()
    for name in python3.12 python3.11 python3.13; do
        if usable "$name"; then found+=("$name"); fi
    done
    if ((${#found[@]} == 0)); then
        say "there is no python3.12, python3.11 or python3.13 with ensurepip; install one, or set PYTHON"
        exit 1
    fi
    PYTHON="${found[0]}" REASON="the first of 3.12, 3.11, 3.13 here"
    wants_cpu_torch || return 0
    for name in "${found[@]}"; do
        if has_cpu_torch "$name"; then
            PYTHON="$name" REASON="pip offers a CPU build of torch for it"
            return
        fi
    done
}

PRESENT=""
if [[ -x "$VENV/bin/python" || -L "$VENV/bin/python" ]]; then # the Python of a link may be gone
    if ! PRESENT="$("$VENV/bin/python" -c 'import importlib.util, sys
print("%d.%d" % sys.version_info[:2])
sys.exit(sys.version_info < (3, 11) or importlib.util.find_spec("pip") is None)' 2>/dev/null)"; then
        say "$VENV has no Python 3.11 or newer with pip: remove ${VENV#"$PWD/"}"
        exit 1
    fi
fi

if [[ -n ${PYTHON:-} ]]; then
    if ! usable "$PYTHON"; then
        say "PYTHON=$PYTHON is no Python 3.11 or newer that runs and has ensurepip"
        exit 1
    fi
    REASON="chosen by PYTHON"
elif [[ -n $PRESENT ]]; then
    PYTHON="$VENV/bin/python" REASON="as before"
else
    choose_python
fi
VERSION="$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
WANTED="$(cat setup.py constraints.txt fairseq.txt scripts/setup.sh | "$PYTHON" -c \
    'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())') $VERSION"
if [[ -f "$STAMP" && "$(cat "$STAMP")" == "$WANTED" ]]; then
    say "$VENV is up to date (Python $VERSION)"
    exit 0
fi

if [[ -n $PRESENT ]]; then
    if [[ "$PRESENT" != "$VERSION" ]]; then
        say "$VENV has Python $PRESENT, asked for is $VERSION: remove $VENV, or set PYTHON to the one it has"
        exit 1
    fi
    say "Python $VERSION in $VENV, as before"
else
    say "making $VENV with Python $VERSION ($PYTHON: $REASON)"
    "$PYTHON" -m venv "$VENV"
fi

pip() { "$VENV/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }
install() { pip install -c constraints.txt "$@"; }

say "1/4 pip, setuptools, wheel, cython, numpy"
install pip setuptools wheel cython numpy
say "2/4 torch (a large download)"
FROM=()
if wants_cpu_torch && ! has_cpu_torch "$VENV/bin/python"; then
    FROM=(--extra-index-url "$CPU_WHEELS" --retries 1 --timeout 20)
    if ! has_cpu_torch "$VENV/bin/python" "${FROM[@]}"; then
        say "there is no CPU build of torch $TORCH at $CPU_WHEELS: torch comes with CUDA, several GB"
        FROM=()
    fi
fi
install torch ${FROM[@]+"${FROM[@]}"}
# both have the package fairseq: the one that is not wanted here goes first
if [[ $(uname -sm) == "Linux x86_64" && $VERSION =~ ^3\.1[12]$ ]]; then
    say "3/4 ve-fairseq"
    pip uninstall --yes fairseq-fixed 2>/dev/null
else
    say "3/4 fairseq-fixed, built from source unless it has a wheel: about 2.5 minutes without output"
    pip uninstall --yes ve-fairseq 2>/dev/null
fi
# against the torch and numpy that are there
pip install --no-deps --no-build-isolation --require-hashes -r fairseq.txt
say "4/4 fairseq_attn_plugin, for editing, with its extras"
install --no-build-isolation --editable ".[dev,analysis,export,docs]"

# fairseq looks for --user-dir NAME beside its own folder, where an installation for editing puts nothing
BESIDE="$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/fairseq_attn_plugin"
mkdir -p "$BESIDE"
cat >"$BESIDE/__init__.py" <<STUB
"""The package is in a checkout; scripts/setup.sh has made this file."""

__path__[:] = ["$PWD/fairseq_attn_plugin"]
with open(__path__[0] + "/__init__.py", encoding="utf-8") as _file:
    exec(compile(_file.read(), _file.name, "exec"))
STUB

# a stamped environment must be able to import the package
"$VENV/bin/python" -c 'import fairseq, fairseq_attn_plugin' >&2
printf '%s\n' "$WANTED" >"$STAMP"
say "done: source $VENV/bin/activate"
