#!/usr/bin/env bash
# Runs all checks: set-up, formatting, linting, types, shell scripts, tests. Other arguments go to pytest:
#
#   bash scripts/test.sh           about 9 minutes on two cores
#   bash scripts/test.sh --fast    the first case of each test, without those that start processes, train or are slow
#   bash scripts/test.sh tests/test_imports.py -k private
#
# Settings (environment variables, with their defaults):
#   WORKERS=2                      processes that run tests
#   FAIRSEQ_ATTN_COLD=0            1: start every command as a new process instead of a fork of a warm one
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV=.venv bash scripts/setup.sh
export PATH="$PWD/.venv/bin:$PATH"

set -x
ruff check .
ruff format --check .
mypy
shellcheck scripts/*.sh scripts/recipes/*.sh
python -m pytest -n "${WORKERS:-2}" --dist worksteal --durations=15 "$@"
