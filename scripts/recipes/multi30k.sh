#!/usr/bin/env bash
# Multi30k: German-English captions of images, 29,000 / 1,014 / 1,000 (test_2016_flickr). For research use.
#
#   fairseq-attn recipe multi30k [prepare] [options of fairseq-train]
#
# Variables (default): SRC and TGT, de and en in either order (de, en); ARCH (lstm_adm); SEED (1);
# OUT, folder for all files (out/multi30k); DATA, folder in place of a download, with train, val and test_2016_flickr,
# each as .de.gz and .en.gz (or unzipped); DEVICE, cpu or auto (auto: a GPU if there is one).
# Text: lower-cased, Moses-tokenised; the *.tok.* files of DATA if it has them. Scores: without regard to case, of the
# tokenised and of the detokenised text. The paper of lstm_structured and lstm_sigmoid has --dropout 0.3.
# A second call continues: what is there is not made again. With prepare, it ends before the training.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command -v fairseq-attn >/dev/null || PATH=$ROOT/.venv/bin:$PATH # the environment of the checkout

SRC=${SRC:-de} TGT=${TGT:-en} ARCH=${ARCH:-lstm_adm} SEED=${SEED:-1} DEVICE=${DEVICE:-auto} DATA=${DATA:-}
OUT=${OUT:-out/multi30k} CPU=${DEVICE#auto}; export PYTHONIOENCODING=utf-8
DIR=$OUT/$SRC-$TGT.subword-nmt8000
BIN=$DIR/data/bin RUN=$DIR/$ARCH.seed$SEED
[[ $SRC-$TGT =~ ^(de-en|en-de)$ ]] ||
  { echo "multi30k: SRC=$SRC TGT=$TGT: must be de and en, in either order" >&2 && exit 1; }
[[ $DEVICE =~ ^(auto|cpu)$ ]] || { echo "multi30k: DEVICE=$DEVICE: must be auto or cpu" >&2 && exit 1; }

fairseq-attn prepare multi30k --out "$DIR/data" --subwords subword-nmt --subword-size 8000 \
  --downloads "$OUT/downloads" ${DATA:+--data "$DATA"}
if [ ! -d "$BIN" ]; then
  trap 'rm -rf "$BIN.part.$$"' EXIT
  fairseq-preprocess --source-lang "$SRC" --target-lang "$TGT" --destdir "$BIN.part.$$" \
    --workers "$(getconf _NPROCESSORS_ONLN)" --trainpref "$DIR/data/segmented/train" \
    --validpref "$DIR/data/segmented/valid" --testpref "$DIR/data/segmented/test"
  [ -d "$BIN" ] || mv "$BIN.part.$$" "$BIN"
fi
[ "${1:-}" != prepare ] || exit 0

mkdir -p "$RUN"; exec 9>>"$RUN/lock"
type -P flock >/dev/null && ! flock -n 9 && echo "$RUN: another process works there; wait" >&2 && exit 1
[[ -e $RUN/checkpoint_last.pt && -e $RUN/options ]] || printf '%s\n' "$*" >"$RUN/options"
[ "$(cat "$RUN/options")" = "$*" ] ||
  { echo "$RUN: has options '$(cat "$RUN/options")', not '$*': choose another SEED or remove it" >&2 && exit 1; }
if [ ! "$RUN/trained" -nt "$BIN" ]; then
  # dropout: density-matrix paper; its rate, 1e-3, and ten epochs are too little here: docs/results/multi30k.md
  fairseq-train "$BIN" --user-dir fairseq_attn_plugin --source-lang "$SRC" --target-lang "$TGT" --arch "$ARCH" \
    --dropout 0.2 --optimizer adam --lr 3e-3 --clip-norm 5 --max-tokens 1000 --max-epoch 15 \
    --lr-scheduler fixed --force-anneal 10 --lr-shrink 0.5 \
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
    --seed "$SEED" --save-dir "$RUN" --no-epoch-checkpoints --log-file "$RUN/train.log" ${CPU:+--cpu} "$@"
  [ ! -e "$RUN/checkpoint_best.pt" ] || touch "$RUN/trained"
fi

if [ ! "$RUN/test.hyp" -nt "$RUN/trained" ]; then
  fairseq-generate "$BIN" --user-dir fairseq_attn_plugin --source-lang "$SRC" --target-lang "$TGT" \
    --path "$RUN/checkpoint_best.pt" --gen-subset test --beam 10 --batch-size 64 \
    --remove-bpe --tokenizer moses ${CPU:+--cpu} >"$RUN/generate.txt"
  grep '^D-' "$RUN/generate.txt" | LC_ALL=C sort -t- -k2 -n | cut -f 3 >"$RUN/test.detok.hyp"
  grep '^H-' "$RUN/generate.txt" | LC_ALL=C sort -t- -k2 -n | cut -f 3 >"$RUN/test.hyp.part"
  mv "$RUN/test.hyp.part" "$RUN/test.hyp"
fi
sacrebleu "$DIR/data/text/test.$TGT" --input "$RUN/test.hyp" --metrics bleu chrf ter --width 2 \
  --tokenize none --force --lowercase --chrf-lowercase | tee "$RUN/test.tokenized.json"
sacrebleu "$DIR/data/text/test.raw.$TGT" --input "$RUN/test.detok.hyp" --metrics bleu chrf ter --width 2 \
  --lowercase --chrf-lowercase | tee "$RUN/test.detokenized.json"
if [ ! "$RUN/explore.html" -nt "$RUN/trained" ]; then # attention, to be opened in a browser
  fairseq-attn extract "$BIN" --path "$RUN/checkpoint_best.pt" --gen-subset test --out "$RUN/attention.jsonl" \
    --overwrite ${CPU:+--cpu}
  fairseq-attn explore "$RUN/attention.jsonl" --out "$RUN/explore.html"
fi
