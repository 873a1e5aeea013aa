#!/usr/bin/env bash
# Runs all steps with one command: a small corpus in two invented languages with gold word alignments, BPE, training,
# translation, BLEU, alignment error rate, attention heatmaps. Takes at most five minutes on two CPU cores after set-up.
#
#   bash scripts/demo.sh [--fresh]
#
# Finished steps are not repeated, and an interrupted training continues; --fresh repeats everything.
# Settings (environment variables, with their defaults):
#   OUT=demo-out                      folder for all files; git ignores it
#   ARCH=lstm_adm                     any architecture of the plugin
#   SEED=1                            random seed of the corpus and of the training
#   TRAIN=6000 VALID=300 TEST=300     sentence pairs
#   MAX_EPOCH=18 MAX_UPDATE=0         length of the training; 0 means no limit
#   MERGES=1500                       joint BPE operations
#   TRAIN_OPTIONS=                    more options of fairseq-train: --attention structured, or
#                                     --criterion guided_alignment --load-alignments (with the links of the corpus)
#   OMP_NUM_THREADS=1                 more threads do not help models of this size
#   SETUP=1                           0: use the Python of the PATH instead of scripts/setup.sh and its .venv
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
OUT=${OUT:-demo-out} ARCH=${ARCH:-lstm_adm} SEED=${SEED:-1}
TRAIN=${TRAIN:-6000} VALID=${VALID:-300} TEST=${TEST:-300}
TRAIN_OPTIONS=${TRAIN_OPTIONS:-}
MAX_EPOCH=${MAX_EPOCH:-18} MAX_UPDATE=${MAX_UPDATE:-0} MERGES=${MERGES:-1500}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} PYTHONIOENCODING=utf-8
export PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH}

die() { echo "demo: $*" >&2; exit 1; }
say() { printf '\n== %s\n' "$*"; }

FRESH=0
for argument in "$@"; do
  case $argument in
    --fresh) FRESH=1 ;;
    -h | --help) sed -n '2,/^[^#]/{/^#/{s/^# \{0,1\}//;p;};}' "$0"; exit 0 ;;
    *) die "unknown argument $argument: there is --fresh and --help; everything else is an environment variable" ;;
  esac
done
for name in SEED TRAIN VALID TEST MAX_EPOCH MAX_UPDATE MERGES; do
  [[ ${!name} =~ ^(0|[1-9][0-9]*)$ ]] || die "$name=${!name}: must be a whole number"
done
((MAX_EPOCH + MAX_UPDATE > 0)) || die "MAX_EPOCH=0 MAX_UPDATE=0: training would never end; set one of them"

if [[ ${SETUP:-1} == 1 ]]; then
  VENV=.venv bash "$ROOT/scripts/setup.sh"
  export PATH=$ROOT/.venv/bin:$PATH
fi
command -v fairseq-train >/dev/null || die "fairseq-train is not on the PATH: leave SETUP unset, or activate an environment that has it"

SETTINGS="ARCH=$ARCH SEED=$SEED TRAIN=$TRAIN VALID=$VALID TEST=$TEST MAX_EPOCH=$MAX_EPOCH MAX_UPDATE=$MAX_UPDATE MERGES=$MERGES${TRAIN_OPTIONS:+ TRAIN_OPTIONS=$TRAIN_OPTIONS}"
if [[ -e $OUT && $(head -n 1 "$OUT/settings" 2>/dev/null) != ARCH=* ]] && [[ ! -d $OUT || -n $(ls -A "$OUT") ]]; then
  die "OUT=$OUT: exists and is not a folder of this demo; name another one"
fi
if [[ $FRESH == 1 && -d $OUT ]]; then
  rm -r -- "$OUT"
fi
if [[ -f $OUT/settings && $(cat "$OUT/settings") != "$SETTINGS" ]]; then
  die "OUT=$OUT: holds a run with other settings ($(cat "$OUT/settings")); use --fresh, or another OUT"
fi
mkdir -p "$OUT/done" "$OUT/log"
echo "$SETTINGS" >"$OUT/settings"
echo '*' >"$OUT/.gitignore"
STARTED=$SECONDS
trap 'echo; die "interrupted; the same command continues from here"' INT

# stage NAME TEXT: runs the function stage_NAME unless an earlier run has finished it and all stages before it
CHANGED=0
stage() {
  if [[ $CHANGED == 0 && -f $OUT/done/$1 ]]; then
    say "$2: done before"
  else
    say "$2"
    CHANGED=1
    rm -f "$OUT/done/$1"
    "stage_$1"
    touch "$OUT/done/$1"
  fi
}

# quietly NAME COMMAND...: output goes to a log, whose last line is shown if the command fails
quietly() {
  local log=$OUT/log/$1
  shift
  "$@" >"$log" 2>&1 || die "$1 failed: $(grep -v '^\s*$' "$log" | tail -n 1) (all of it: $log)"
}

# into FILE NAME COMMAND...: the same, and standard output becomes FILE if the command succeeds
into() {
  local file=$1 log=$OUT/log/$2
  shift 2
  "$@" >"$file.part" 2>"$log" || die "$1 failed: $(grep -v '^\s*$' "$log" | tail -n 1) (all of it: $log)"
  mv "$file.part" "$file"
}

analysis() { python -m fairseq_attn_plugin.cli "$@"; }

stage_corpus() {
  python -m fairseq_attn_plugin.toy_corpus --out "$OUT/text" --seed "$SEED" --train "$TRAIN" --valid "$VALID" --test "$TEST" ||
    die "the corpus could not be generated"
  # a few examples: source, target, links
  paste -d '\n' "$OUT/text/test.vr" "$OUT/text/test.dm" "$OUT/text/test.align" |
    awk 'NR <= 9 { print "   " $0 } NR <= 9 && NR % 3 == 0 { print "" }'
}

stage_prepare() {
  local split language
  mkdir -p "$OUT/bpe"
  quietly learn-bpe subword-nmt learn-joint-bpe-and-vocab --input "$OUT/text/train.vr" "$OUT/text/train.dm" \
    -s "$MERGES" -o "$OUT/bpe/codes" --write-vocabulary "$OUT/bpe/vocabulary.vr" "$OUT/bpe/vocabulary.dm"
  for split in train valid test; do
    for language in vr dm; do
      into "$OUT/bpe/$split.$language" apply-bpe subword-nmt apply-bpe -c "$OUT/bpe/codes" <"$OUT/text/$split.$language"
    done
  done
  # the corpus has links: data for --criterion guided_alignment --load-alignments
  for split in train valid; do
    quietly subword-links analysis align "$OUT/text/$split.align" --convert \
      --source "$OUT/bpe/$split.vr" --target "$OUT/bpe/$split.dm" --out "$OUT/bpe/$split.align"
  done
  rm -rf "${OUT:?}/bin"
  quietly preprocess fairseq-preprocess --source-lang vr --target-lang dm --destdir "$OUT/bin" \
    --trainpref "$OUT/bpe/train" --validpref "$OUT/bpe/valid" --testpref "$OUT/bpe/test" \
    --align-suffix align
  echo "   $(wc -l <"$OUT/bin/dict.vr.txt") and $(wc -l <"$OUT/bin/dict.dm.txt") subwords"
}

stage_train() {
  # shellcheck disable=SC2086 # TRAIN_OPTIONS are words
  fairseq-train "$OUT/bin" --user-dir "$ROOT/fairseq_attn_plugin" --arch "$ARCH" \
    --encoder-embed-dim 128 --encoder-hidden-size 128 --encoder-layers 1 --encoder-bidirectional \
    --decoder-embed-dim 128 --decoder-hidden-size 128 --decoder-layers 1 --decoder-out-embed-dim 128 --dropout 0.2 \
    --embed-init-range 1 \
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --optimizer adam --lr 3e-3 --clip-norm 1 \
    --lr-scheduler fixed --force-anneal 11 --lr-shrink 0.7 --max-tokens 600 --required-batch-size-multiple 1 \
    --max-epoch "$MAX_EPOCH" --max-update "$MAX_UPDATE" --seed "$SEED" --cpu --num-workers 0 \
    --save-dir "$OUT/checkpoints" --no-epoch-checkpoints --log-format json --log-interval 20 \
    $TRAIN_OPTIONS 2>&1 |
    python -m fairseq_attn_plugin.own_data.progress "$OUT/log/train" "$MAX_EPOCH" ||
    die "training stopped: $(tail -n 1 "$OUT/log/train") (all of it: $OUT/log/train); the same command continues from there"
}

stage_translate() {
  into "$OUT/generated" translate fairseq-generate "$OUT/bin" --user-dir "$ROOT/fairseq_attn_plugin" --gen-subset test \
    --path "$OUT/checkpoints/checkpoint_best.pt" --beam 10 --batch-size 50 --remove-bpe --cpu --num-workers 0
  grep '^H-' "$OUT/generated" | sort -V | cut -f3 >"$OUT/translation.dm"
  # Gold links belong to the reference, so the decoder is forced to produce the reference here.
  quietly extract analysis extract "$OUT/bin" --path "$OUT/checkpoints/checkpoint_best.pt" --name "$ARCH" \
    --out "$OUT/attention.jsonl" --overwrite --cpu
}

stage_report() {
  quietly align analysis align "$OUT/attention.jsonl" --out "$OUT/attention.align"
  rm -rf "${OUT:?}/heatmaps"
  quietly plot analysis plot "$OUT/attention.jsonl" --first 6 --gold "$OUT/text/test.align" --out "$OUT/heatmaps"
  # the corpus is tokenised on purpose: --force suppresses sacreBLEU's warning
  into "$OUT/report.bleu" bleu sacrebleu "$OUT/text/test.dm" -i "$OUT/translation.dm" --format text --force
  into "$OUT/report.aer" aer analysis aer attention="$OUT/attention.jsonl" --gold "$OUT/text/test.align"
  cat "$OUT/report.bleu" "$OUT/report.aer" >"$OUT/report.txt"
}

stage_explore() {
  quietly explore analysis explore "$OUT/attention.jsonl" --out "$OUT/explore.html"
}

stage corpus "corpus"
stage prepare "BPE and binarisation"
stage train "training $ARCH"
stage translate "translation of the test set, beam 10"
stage report "scores and pictures"
stage explore "a page to explore attention"

say "results ($((SECONDS - STARTED)) s)"
cat "$OUT/report.txt"
cat <<END

   $OUT/text            the corpus and its gold alignments
   $OUT/checkpoints     the trained model
   $OUT/translation.dm  translations of $OUT/text/test.vr
   $OUT/attention.align hard alignments by attention, of the reference
   $OUT/heatmaps        attention of a few sentences (PNG)
   $OUT/explore.html    attention of many sentences, to be opened in a browser
   $OUT/log             what every tool said
END
