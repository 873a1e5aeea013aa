#!/usr/bin/env bash
# Yahoo Answers of Zhang, Zhao and LeCun (2015): 1,460,000 questions with their best answers, of ten topics.
#
#   fairseq-attn recipe yahoo_answers_han [prepare] [options of fairseq-train]
#
# Variables (default): ARCH, any of han, han_flat and han_mean (han); SEED (1); OUT, folder for all files
# (out/yahoo_answers_han); DATA, folder with train.csv and test.csv in place of a download; DEVICE, cpu or auto (auto: a
# GPU if there is one).
# Paper: Yang et al. 2016, "Hierarchical Attention Networks for Document Classification". It searches for the
# learning rate, and starts from word2vec of the training text: --word-embeddings FILE.
# Text: lower-cased, Moses-tokenised; every tenth training question is of the validation set.
# A second call continues: what is there is not made again. With prepare, it ends before the training.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command -v fairseq-attn >/dev/null || PATH=$ROOT/.venv/bin:$PATH # the environment of the checkout

ARCH=${ARCH:-han} SEED=${SEED:-1} DEVICE=${DEVICE:-auto} DATA=${DATA:-}
OUT=${OUT:-out/yahoo_answers_han} CPU=${DEVICE#auto}
BIN=$OUT/all/data/bin TEXT=$OUT/all/data/text
[[ $DEVICE =~ ^(auto|cpu)$ ]] || { echo "yahoo_answers_han: DEVICE=$DEVICE: must be auto or cpu" >&2 && exit 1; }

fairseq-attn prepare yahoo_answers_han --out "$OUT/all/data" --downloads "$OUT/downloads" ${DATA:+--data "$DATA"}
if [ ! -d "$BIN" ]; then
  trap 'rm -rf "$BIN.part.$$"' EXIT
  # paper: words that occur less than six times are unknown
  fairseq-preprocess --only-source --workers "$(getconf _NPROCESSORS_ONLN)" --trainpref "$TEXT/train.input0" \
    --validpref "$TEXT/valid.input0" --testpref "$TEXT/test.input0" --destdir "$BIN.part.$$/input0" --thresholdsrc 6
  fairseq-preprocess --only-source --workers "$(getconf _NPROCESSORS_ONLN)" --trainpref "$TEXT/train.label" \
    --validpref "$TEXT/valid.label" --testpref "$TEXT/test.label" --destdir "$BIN.part.$$/label"
  [ -d "$BIN" ] || mv "$BIN.part.$$" "$BIN"
fi
[ "${1:-}" != prepare ] || exit 0

for MODEL in $ARCH; do
  RUN=$OUT/all/$MODEL.seed$SEED
  mkdir -p "$RUN"; exec 9>>"$RUN/lock"
  type -P flock >/dev/null && ! flock -n 9 && echo "$RUN: another process works there; wait" >&2 && exit 1
  [[ -e $RUN/checkpoint_last.pt && -e $RUN/options ]] || printf '%s\n' "$*" >"$RUN/options"
  [ "$(cat "$RUN/options")" = "$*" ] ||
    { echo "$RUN: has options '$(cat "$RUN/options")', not '$*': choose another SEED or remove it" >&2 && exit 1; }
  if [ ! "$RUN/trained" -nt "$BIN" ]; then
    # paper: GRUs of 50 units in each direction, embeddings of 200, SGD with momentum 0.9, batches of 64
    fairseq-train "$BIN" --user-dir fairseq_attn_plugin --task document_classification --arch "$MODEL" \
      --criterion document_classification --rnn gru --word-embed-dim 200 --optimizer sgd --momentum 0.9 \
      --batch-size 64 --required-batch-size-multiple 1 --lr 0.1 --lr-scheduler fixed --force-anneal 8 \
      --lr-shrink 0.5 --dropout 0.3 --clip-norm 5 --max-epoch 12 --best-checkpoint-metric accuracy \
      --maximize-best-checkpoint-metric --seed "$SEED" --save-dir "$RUN" --no-epoch-checkpoints \
      --log-file "$RUN/train.log" ${CPU:+--cpu} "$@"
    [ ! -e "$RUN/checkpoint_best.pt" ] || touch "$RUN/trained"
  fi
  if [ ! "$RUN/test.html" -nt "$RUN/trained" ]; then # classes, and the words with the greatest weights
    fairseq-attn classify "$BIN" --path "$RUN/checkpoint_best.pt" --gen-subset test --out "$RUN/test.jsonl" \
      --scores "$RUN/test.json" --plot "$RUN/test.html" ${CPU:+--cpu}
  fi
done
