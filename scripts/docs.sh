#!/usr/bin/env bash
# Builds the documentation into docs/_build/html/index.html, which needs no network. A warning is an error.
#
#   bash scripts/docs.sh [--fresh]        --fresh builds all pages again
#
# SETUP=0 uses the Python of the PATH instead of scripts/setup.sh and its .venv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

OPTIONS=()
for argument in "$@"; do
    case $argument in
        --fresh) OPTIONS+=(--fresh-env --write-all) ;;
        -h | --help) sed -n '2,/^[^#]/{/^#/{s/^# \{0,1\}//;p;};}' "$0"; exit 0 ;;
        *) echo "docs: unknown argument $argument; choose from --fresh, --help" >&2; exit 1 ;;
    esac
done
if [[ ${SETUP:-1} == 1 ]]; then
    VENV=.venv bash scripts/setup.sh
    export PATH="$PWD/.venv/bin:$PATH"
fi
python -m sphinx -W -n --keep-going --quiet -b html ${OPTIONS[@]+"${OPTIONS[@]}"} docs docs/_build/html
echo "docs: docs/_build/html/index.html"
