#!/usr/bin/env bash
# Runs a recipe in the active environment if it has all tools, otherwise in the .venv of the checkout.
#
#   bash scripts/recipes/_run.sh NAME [arguments]
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
for argument in "${@:2}"; do
  case $argument in
    --) break ;;
    -h | --help) # without an environment, too
      cat "$ROOT/fairseq_attn_plugin/recipes/manuals/$1.txt"
      exit 0
      ;;
  esac
done
NEED="fairseq subword_nmt sentencepiece sacrebleu sacremoses tqdm tabulate portalocker"
PROBE='import sys; from importlib.util import find_spec; sys.exit(any(find_spec(m) is None for m in sys.argv[1:]))'
export PYTHONPATH="$ROOT${PYTHONPATH:+:$PYTHONPATH}"
for python in python "$ROOT/.venv/bin/python"; do
  # shellcheck disable=SC2086 # the words of $NEED are the arguments
  if command -v "$python" >/dev/null && "$python" -c "$PROBE" $NEED 2>/dev/null; then
    exec "$python" -m fairseq_attn_plugin.recipes "$@"
  fi
done
echo "${1:-recipe}: no environment with ${NEED// /, }: run 'bash scripts/setup.sh' in $ROOT" >&2
exit 1
