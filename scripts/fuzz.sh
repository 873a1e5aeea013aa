#!/usr/bin/env bash
# Fuzzes the readers of files and the options of commands, each with other examples than before. Prints how many cases
# ended in a result, in a refusal of one line, and in a fault, and the smallest example of every fault.
#
#   bash scripts/fuzz.sh                 a hundred times as many examples as the tests
#   bash scripts/fuzz.sh 10              ten times as many
#   bash scripts/fuzz.sh 10 -k records   of some kinds only; other arguments go to pytest
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

TIMES=100
if [[ ${1:-} =~ ^[0-9]+$ ]]; then
  TIMES=$1
  shift
fi
[[ -d .venv ]] && export PATH="$PWD/.venv/bin:$PATH"
export FAIRSEQ_ATTN_FUZZ=$TIMES
exec python -m pytest -q tests/fuzz -W ignore --timeout 0 --hypothesis-show-statistics "$@"
