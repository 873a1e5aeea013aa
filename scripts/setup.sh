#!/usr/bin/env bash
# Makes the virtual environment .venv in the checkout, ready to train and to run the tests.
#
#   bash scripts/setup.sh                 Python 3.11; a second call returns at once
#   PYTHON=python3.12 bash scripts/setup.sh
#
# fairseq is built against the installed torch and numpy. Therefore the order is: tools, torch, fairseq (without build
# isolation), this package. On a machine with a GPU, pip installs torch with CUDA.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PYTHON="${PYTHON:-python3.11}"
VENV="$PWD/.venv"
STAMP="$VENV/.setup-stamp"

say() { printf 'setup: %s\n' "$*" >&2; }

if ! command -v "$PYTHON" >/dev/null || ! "$PYTHON" -c '' 2>/dev/null; then
    say "PYTHON=$PYTHON does not run; set PYTHON to a Python 3.8 or newer (3.11 is the tested one)"
    exit 1
fi
VERSION="$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
WANTED="$(cat setup.py constraints.txt scripts/setup.sh | "$PYTHON" -c \
    'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())') $VERSION"
if [[ -f "$STAMP" && "$(cat "$STAMP")" == "$WANTED" ]]; then
    say "$VENV is up to date"
    exit 0
fi

if [[ -x "$VENV/bin/python" ]]; then
    PRESENT="$("$VENV/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
    if [[ "$PRESENT" != "$VERSION" ]]; then
        say "$VENV has Python $PRESENT, asked for is $VERSION: remove $VENV, or set PYTHON to the one it has"
        exit 1
    fi
else
    say "making $VENV with Python $VERSION"
    "$PYTHON" -m venv "$VENV"
fi

install() { "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt "$@"; }
newer_than_310() { "$VENV/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; }

if newer_than_310; then
    FAIRSEQ="fairseq-fixed" TORCH="torch" PIP="pip"
else
    # pip 24.1 and later refuse the metadata of fairseq 0.12.2's dependencies
    FAIRSEQ="fairseq==0.12.2" TORCH="torch<2.6" PIP="pip<24.1"
fi
say "1/4 pip, setuptools, wheel, cython, numpy"
install "$PIP" "setuptools<81" wheel cython numpy
say "2/4 torch (a large download)"
install "$TORCH"
say "3/4 $FAIRSEQ, built from source: about 2.5 minutes without output"
install --no-build-isolation "$FAIRSEQ"
say "4/4 fairseq_attn_plugin, for editing, with its extras"
install --no-build-isolation --editable ".[dev,analysis,serve,export,hub,docs]"

# a stamped environment must be able to import the package
"$VENV/bin/python" -c 'import fairseq, fairseq_attn_plugin' >&2
printf '%s\n' "$WANTED" >"$STAMP"
say "done: source $VENV/bin/activate"
