#!/usr/bin/env bash
# All that has to pass: set-up, formatting, linting, types, tests. Arguments go to pytest:
#
#   bash scripts/test.sh
#   bash scripts/test.sh tests/test_errors.py -k excepthook
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash scripts/setup.sh
export PATH="$PWD/.venv/bin:$PATH"
# the tests run side by side: one thread each
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

set -x
ruff check .
ruff format --check .
mypy
python -m pytest -n 2 --dist loadfile --durations=15 "$@"
