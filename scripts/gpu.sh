#!/usr/bin/env bash
# Checks the plugin on a machine with a GPU, in at most nine minutes. The machine needs no network.
#
#   bash scripts/gpu.sh                                  in the active environment, or the checkout's .venv
#   WHEELS=wheels DATA=data/bin bash scripts/gpu.sh      on a machine that has torch and no fairseq
#   DEVICE=cpu bash scripts/gpu.sh                       the same in tiny sizes, in a minute on two cores
#
# Steps, each with a limit in seconds; a step that fails or is stopped does not stop the others:
#   SMOKE=110      a few updates of seven kinds of models in four precisions, and translations by beam search
#   TESTS=150      tests/test_gpu.py: results of the GPU against those of the processor
#   BENCHMARK=90   scripts/bench.py: training steps and beam search, and the kernels of a training step
#   TRAINING=145   three epochs of DATA: words per second, perplexity, BLEU; in half precision as far as time allows
# 0 leaves a step out. Results are in OUT: STEP.json, environment.json, log.txt. The status is 1 if a step failed.
# Other settings (environment variables, with their defaults):
#   DEVICE=cuda    or cpu
#   OUT=gpu-out    folder of the results; files of an earlier run are replaced
#   WHEELS=        folder that scripts/gpu_wheels.sh has made: its packages go into a temporary folder
#   DATA=          folder of fairseq-preprocess for the training (an invented corpus). 2.7 MB of Multi30k are in
#                  out/multi30k/de-en.subword-nmt8000/data/bin after fairseq-attn recipe multi30k prepare
#   PYTHON=python3 with WHEELS
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

DEVICE=${DEVICE:-cuda} OUT=${OUT:-gpu-out} WHEELS=${WHEELS:-} DATA=${DATA:-} PYTHON=${PYTHON:-python3}
for name in OUT WHEELS DATA; do # relative paths are of the folder of the call
  [[ -z ${!name} || ${!name} == /* ]] || printf -v "$name" %s "$OLDPWD/${!name}"
done
SMOKE=${SMOKE:-110} TESTS=${TESTS:-150} BENCHMARK=${BENCHMARK:-90} TRAINING=${TRAINING:-145}

die() { echo "gpu: $*" >&2; exit 1; }
say() { printf 'gpu: %4d s  %s\n' "$SECONDS" "$*"; }

case ${1:-} in
  -h | --help) sed -n '2,/^[^#]/{/^#/{s/^# \{0,1\}//;p;};}' "$0"; exit 0 ;;
  ?*) die "unknown argument $1: there is --help; everything else is an environment variable" ;;
esac
[[ $DEVICE == cuda || $DEVICE == cpu ]] || die "DEVICE=$DEVICE: must be cuda or cpu"
for name in SMOKE TESTS BENCHMARK TRAINING; do
  [[ ${!name} =~ ^(0|[1-9][0-9]*)$ ]] || die "$name=${!name}: must be a whole number of seconds, 0 to leave the step out"
done
if [[ -n $WHEELS ]] && ! compgen -G "$WHEELS/ve_fairseq-*.whl" >/dev/null; then
  die "WHEELS=$WHEELS: must be a folder with wheels of ve-fairseq and others; bash scripts/gpu_wheels.sh DIR makes one"
fi
if [[ -n $DATA ]] && ! { compgen -G "$DATA/train.*-*.*.idx" && compgen -G "$DATA/test.*-*.*.idx"; } >/dev/null; then
  die "DATA=$DATA: must be a folder of fairseq-preprocess with train, valid and test; leave it out for an invented corpus"
fi
[[ ! -e $OUT || -d $OUT ]] || die "OUT=$OUT: is no folder; name another one"

WORK=$(mktemp -d)
CHILD=""
trap 'rm -rf "$WORK"' EXIT
trap '[[ -z $CHILD ]] || kill "$CHILD" 2>/dev/null; die interrupted' INT TERM
if [[ -n $WHEELS ]]; then
  command -v "$PYTHON" >/dev/null || die "PYTHON=$PYTHON: there is no such command; name a Python 3.12 that has torch"
  "$PYTHON" -m pip install -q --no-index --no-deps --no-cache-dir --target "$WORK/site" "$WHEELS"/*.whl \
    >"$WORK/pip" 2>&1 || die "WHEELS=$WHEELS: cannot be installed with PYTHON=$PYTHON: $(tail -n 1 "$WORK/pip")"
  export PATH=$WORK/site/bin:$PATH PYTHONPATH=$WORK/site${PYTHONPATH:+:$PYTHONPATH}
else
  command -v fairseq-train >/dev/null || export PATH=$PWD/.venv/bin:$PATH
  command -v fairseq-train >/dev/null || die "fairseq-train is not on the PATH: call scripts/setup.sh, or set WHEELS"
  PYTHON=python3
fi
if [[ $DEVICE == cuda ]]; then
  SEEN=$("$PYTHON" -c 'import torch; print(torch.cuda.is_available())' 2>&1 | tail -n 1) || true
  [[ $SEEN == True ]] || die "DEVICE=cuda: torch sees no GPU here ($SEEN); use DEVICE=cpu for a trial in tiny sizes"
fi
export PYTHONPATH=$PWD/scripts:$PWD${PYTHONPATH:+:$PYTHONPATH}
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTHONIOENCODING=utf-8 DEVICE OUT WORK DATA

mkdir -p "$OUT"
LOG=$OUT/log.txt
for name in environment smoke tests benchmark training; do rm -f "$OUT/$name.json"; done
: >"$LOG"

# $WORK/toy: sentences of an invented language; $WORK/documents: three of them make a document of one of two classes
prepare() {
  local split pairs=2000
  if [[ $DEVICE == cpu ]]; then pairs=300; fi
  "$PYTHON" -m fairseq_attn_plugin.toy_corpus --out "$WORK/text" --train "$pairs" --valid 60 --test 60 || return
  for split in train valid; do
    paste -d '|' - - - <"$WORK/text/$split.vr" | sed 's/|/ <\/s> /g' >"$WORK/text/$split.document"
    awk '{ print NR % 2 ? "pos" : "neg" }' "$WORK/text/$split.document" >"$WORK/text/$split.label"
  done
  fairseq-preprocess --source-lang vr --target-lang dm --destdir "$WORK/toy" \
    --trainpref "$WORK/text/train" --validpref "$WORK/text/valid" --testpref "$WORK/text/test" &
  for name in document label; do
    split=$([[ $name == label ]] && echo label || echo input0)
    fairseq-preprocess --only-source --destdir "$WORK/documents/$split" \
      --trainpref "$WORK/text/train.$name" --validpref "$WORK/text/valid.$name" &
  done
  wait
}

# step NAME SECONDS: its own output and that of its commands go to the log
step() {
  [[ $2 != 0 ]] || return 0
  say "$1, at most $2 s"
  LIMIT=$2 timeout -k 5 "$2" "$PYTHON" scripts/gpu_check.py "$1" >>"$LOG" 2>&1 &
  CHILD=$!
  wait "$CHILD" || true
}

say "corpora"
prepare >>"$LOG" 2>&1 || say "the corpora cannot be made (log: $LOG)"
step environment 30
step smoke "$SMOKE"
step tests "$TESTS"
step benchmark "$BENCHMARK"
step training "$TRAINING"
say "done; results are in $OUT"
"$PYTHON" scripts/gpu_check.py summary
