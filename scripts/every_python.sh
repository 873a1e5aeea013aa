#!/usr/bin/env bash
# Set-up, demo and fast tests with every Python that is there, each in an environment of its own, and a table at the end.
#
#   bash scripts/every_python.sh              3.11, 3.12 and 3.13, of the PATH or of pyenv
#   bash scripts/every_python.sh 3.12 3.13    these alone
#
# A first run downloads torch for each Python: with CUDA an environment has 6 GB. Logs and environments are in
# .venv-VERSION; the status is 1 if a step failed.
# Settings (environment variables, with their defaults):
#   KEEP=1                     0: remove each environment after its tests
#   PIP_EXTRA_INDEX_URL=       of pip: https://download.pytorch.org/whl/cpu has CPU builds of torch
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
[[ ${1:-} != -* ]] || { sed -n '2,/^[^#]/{/^#/{s/^# \{0,1\}//;p;};}' "$0"; exit 0; }

python_of() {
    local found
    for found in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
        if command -v "$found" >/dev/null && "$found" -c '' 2>/dev/null; then
            echo "$found"
            return
        fi
    done
    return 1
}

export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
OUTSIDE="$PATH" STATUS=0 TABLE=""
# step NAME COMMAND...: runs it with its output in a log, and adds a cell to the row
step() {
    local name=$1 log="$VENV/$1.log" began=$SECONDS
    shift
    echo "every_python: $VERSION: $name (log: $log)"
    if "$@" >"$log" 2>&1; then
        ROW+=" | ok, $((SECONDS - began)) s"
    else
        ROW+=" | failed"
        STATUS=1
        tail -n 3 "$log"
        return 1
    fi
}

# shellcheck disable=SC2329 # step calls it
tests() { python -m pytest -q -n "${WORKERS:-2}" --dist worksteal --fast; }

[[ $# -gt 0 ]] || set -- 3.11 3.12 3.13
for VERSION in "$@"; do
    ROW="| $VERSION"
    if ! PYTHON=$(python_of "$VERSION"); then
        TABLE+="$ROW | none | | |"$'\n'
        continue
    fi
    VENV="$PWD/.venv-$VERSION"
    mkdir -p "$VENV"
    if step set-up env VENV="$VENV" PYTHON="$PYTHON" bash scripts/setup.sh; then
        PATH="$VENV/bin:$OUTSIDE"
        step demo env SETUP=0 OUT="$VENV/demo" bash scripts/demo.sh --fresh
        step tests tests
        PATH="$OUTSIDE"
    else
        ROW+=" | | "
    fi
    TABLE+="$ROW |"$'\n'
    [[ ${KEEP:-1} == 1 ]] || rm -rf "$VENV"
done
printf '\n| Python | set-up | demo | fast tests |\n| --- | --- | --- | --- |\n%s' "$TABLE"
exit "$STATUS"
