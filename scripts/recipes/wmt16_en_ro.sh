#!/usr/bin/env bash
# WMT'16 English-Romanian: Europarl v7 (399K pairs), newsdev2016 to tune, newstest2016 to test (1,999 each).
#
#   fairseq-attn recipe wmt16_en_ro [prepare] [options of fairseq-train]
#
# Variables (default): SRC and TGT, en and ro in either order (en, ro); ARCH (lstm_adm); SEED (1);
# OUT, folder for all files (out/wmt16_en_ro); DATA, folder in place of a download, with europarl-v7.ro-en, newsdev2016
# and newstest2016, each as .ro and .en (plain, .gz, or .sgm of WMT); DEVICE, cpu or auto (auto: a GPU if there is one).
# Paper: Charalampous and Chatzis, "Quantum Statistics-Inspired Neural Attention".
# All models have 4 epochs here. Its structured attention has 12: --max-update 37500 and another --update2lr.
# Tutorial: Luong, Brevdo and Zhao 2017, github.com/tensorflow/nmt, whose settings the paper takes over.
# Text: Moses-tokenised, with its case. Scores: of the tokenised text, as in the paper, and of the detokenised one.
# Hypotheses are ranked by log p per word, fairseq's default; the tutorial ranks by log p (--unnormalized).
# A second call continues: what is there is not made again. With prepare, it ends before the training.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command -v fairseq-attn >/dev/null || PATH=$ROOT/.venv/bin:$PATH # the environment of the checkout

SRC=${SRC:-en} TGT=${TGT:-ro} ARCH=${ARCH:-lstm_adm} SEED=${SEED:-1} DEVICE=${DEVICE:-auto} DATA=${DATA:-}
OUT=${OUT:-out/wmt16_en_ro} CPU=${DEVICE#auto}; export PYTHONIOENCODING=utf-8
DIR=$OUT/$SRC-$TGT.subword-nmt32000
BIN=$DIR/data/bin RUN=$DIR/$ARCH.seed$SEED
[[ $SRC-$TGT =~ ^(en-ro|ro-en)$ ]] ||
  { echo "wmt16_en_ro: SRC=$SRC TGT=$TGT: must be en and ro, in either order" >&2 && exit 1; }
[[ $DEVICE =~ ^(auto|cpu)$ ]] || { echo "wmt16_en_ro: DEVICE=$DEVICE: must be auto or cpu" >&2 && exit 1; }

# paper: joint BPE of 32K merges; tutorial: training sentences are cut to 50 tokens
fairseq-attn prepare wmt16_en_ro --out "$DIR/data" --subwords subword-nmt --subword-size 32000 --cut 50 \
  --downloads "$OUT/downloads" ${DATA:+--data "$DATA"}
if [ ! -d "$BIN" ]; then
  trap 'rm -rf "$BIN.part.$$"' EXIT
  fairseq-preprocess --source-lang "$SRC" --target-lang "$TGT" --destdir "$BIN.part.$$" --joined-dictionary \
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
  # paper: dropout, SGD, 4 epochs; tutorial: the rest, with the rate halved at 9/12, 10/12, 11/12 of them (luong234)
  fairseq-train "$BIN" --user-dir fairseq_attn_plugin --source-lang "$SRC" --target-lang "$TGT" --arch "$ARCH" \
    --dropout 0.2 --optimizer sgd --lr 1.0 --clip-norm 5 --criterion cross_entropy --sentence-avg \
    --batch-size 128 --required-batch-size-multiple 1 --max-update 12000 --lr-scheduler manual \
    --update2lr '{"1":1,"9000":0.5,"10000":0.25,"11000":0.125}' --save-interval-updates 1000 --keep-interval-updates 1 \
    --seed "$SEED" --save-dir "$RUN" --no-epoch-checkpoints --log-file "$RUN/train.log" ${CPU:+--cpu} "$@"
  [ ! -e "$RUN/checkpoint_best.pt" ] || touch "$RUN/trained"
fi

if [ ! "$RUN/test.hyp" -nt "$RUN/trained" ]; then
  fairseq-generate "$BIN" --user-dir fairseq_attn_plugin --source-lang "$SRC" --target-lang "$TGT" \
    --path "$RUN/checkpoint_best.pt" --gen-subset test --beam 10 --batch-size 64 \
    --max-len-a 0 --max-len-b 50 --remove-bpe --tokenizer moses ${CPU:+--cpu} >"$RUN/generate.txt"
  grep '^D-' "$RUN/generate.txt" | LC_ALL=C sort -t- -k2 -n | cut -f 3 >"$RUN/test.detok.hyp"
  grep '^H-' "$RUN/generate.txt" | LC_ALL=C sort -t- -k2 -n | cut -f 3 >"$RUN/test.hyp.part"
  mv "$RUN/test.hyp.part" "$RUN/test.hyp"
fi
sacrebleu "$DIR/data/text/test.$TGT" --input "$RUN/test.hyp" --metrics bleu chrf ter --width 2 \
  --tokenize none --force | tee "$RUN/test.tokenized.json"
sacrebleu "$DIR/data/text/test.raw.$TGT" --input "$RUN/test.detok.hyp" --metrics bleu chrf ter --width 2 \
  | tee "$RUN/test.detokenized.json"
if [ ! "$RUN/explore.html" -nt "$RUN/trained" ]; then # attention, to be opened in a browser
  fairseq-attn extract "$BIN" --path "$RUN/checkpoint_best.pt" --gen-subset test --out "$RUN/attention.jsonl" \
    --overwrite ${CPU:+--cpu}
  fairseq-attn explore "$RUN/attention.jsonl" --out "$RUN/explore.html"
fi
