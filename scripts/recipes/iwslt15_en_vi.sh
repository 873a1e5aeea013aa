#!/usr/bin/env bash
# IWSLT'15 English-Vietnamese, as preprocessed at Stanford: 133K pairs of TED talks, tst2012 to tune, tst2013 to test.
#
#   fairseq-attn recipe iwslt15_en_vi [prepare] [options of fairseq-train]
#
# Variables (default): SRC and TGT, en and vi in either order (en, vi); ARCH (lstm_adm); SEED (1);
# OUT, folder for all files (out/iwslt15_en_vi); DATA, folder in place of a download, with train, tst2012 and tst2013,
# each as .en.gz and .vi.gz (or unzipped); DEVICE, cpu or auto (auto: a GPU if there is one).
# Paper: Charalampous and Chatzis, "Quantum Statistics-Inspired Neural Attention"; layers and sizes of its models:
# PAPER_MODEL in fairseq_attn_plugin/models/architectures.py. Tutorial: Luong, Brevdo and Zhao 2017,
# github.com/tensorflow/nmt, whose settings for this corpus the paper takes over.
# Scores: of the tokenised text, as in the paper; the corpus has no other references. Hypotheses are ranked by log p per
# word, fairseq's default; the tutorial ranks by log p, as fairseq-generate --unnormalized does.
# A second call continues: what is there is not made again. With prepare, it ends before the training.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command -v fairseq-attn >/dev/null || PATH=$ROOT/.venv/bin:$PATH # the environment of the checkout

SRC=${SRC:-en} TGT=${TGT:-vi} ARCH=${ARCH:-lstm_adm} SEED=${SEED:-1} DEVICE=${DEVICE:-auto} DATA=${DATA:-}
OUT=${OUT:-out/iwslt15_en_vi} CPU=${DEVICE#auto}; export PYTHONIOENCODING=utf-8
DIR=$OUT/$SRC-$TGT.none
BIN=$DIR/data/bin RUN=$DIR/$ARCH.seed$SEED
# word vocabularies of the paper, with fairseq's special symbols
case $SRC in en) WORDS=(--nwordssrc 17192 --nwordstgt 7710) ;; *) WORDS=(--nwordssrc 7710 --nwordstgt 17192) ;; esac
[[ $SRC-$TGT =~ ^(en-vi|vi-en)$ ]] ||
  { echo "iwslt15_en_vi: SRC=$SRC TGT=$TGT: must be en and vi, in either order" >&2 && exit 1; }
[[ $DEVICE =~ ^(auto|cpu)$ ]] || { echo "iwslt15_en_vi: DEVICE=$DEVICE: must be auto or cpu" >&2 && exit 1; }

# tutorial: training sentences are cut to 50 words
fairseq-attn prepare iwslt15_en_vi --out "$DIR/data" --subwords none --cut 50 \
  --downloads "$OUT/downloads" ${DATA:+--data "$DATA"}
if [ ! -d "$BIN" ]; then
  trap 'rm -rf "$BIN.part.$$"' EXIT
  fairseq-preprocess --source-lang "$SRC" --target-lang "$TGT" --destdir "$BIN.part.$$" "${WORDS[@]}" \
    --padding-factor 1 --workers "$(getconf _NPROCESSORS_ONLN)" --trainpref "$DIR/data/segmented/train" \
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
  # paper: dropout, Adam at 1e-3; tutorial: the rest, with the rate halved at 9/12, 10/12, 11/12 of 12 epochs (luong234)
  fairseq-train "$BIN" --user-dir fairseq_attn_plugin --source-lang "$SRC" --target-lang "$TGT" --arch "$ARCH" \
    --dropout 0.2 --optimizer adam --lr 1e-3 --clip-norm 5 --criterion cross_entropy --sentence-avg \
    --batch-size 128 --required-batch-size-multiple 1 --max-update 12000 --lr-scheduler manual \
    --update2lr '{"1":0.001,"9000":0.0005,"10000":0.00025,"11000":0.000125}' \
    --seed "$SEED" --save-dir "$RUN" --no-epoch-checkpoints --log-file "$RUN/train.log" ${CPU:+--cpu} "$@"
  [ ! -e "$RUN/checkpoint_best.pt" ] || touch "$RUN/trained"
fi

if [ ! "$RUN/test.hyp" -nt "$RUN/trained" ]; then
  fairseq-generate "$BIN" --user-dir fairseq_attn_plugin --source-lang "$SRC" --target-lang "$TGT" \
    --path "$RUN/checkpoint_best.pt" --gen-subset test --beam 10 --batch-size 64 \
    --max-len-a 0 --max-len-b 50 ${CPU:+--cpu} >"$RUN/generate.txt"
  grep '^H-' "$RUN/generate.txt" | LC_ALL=C sort -t- -k2 -n | cut -f 3 >"$RUN/test.hyp.part"
  mv "$RUN/test.hyp.part" "$RUN/test.hyp"
fi
sacrebleu "$DIR/data/text/test.$TGT" --input "$RUN/test.hyp" --metrics bleu chrf ter --width 2 \
  --tokenize none --force | tee "$RUN/test.tokenized.json"
if [ ! "$RUN/explore.html" -nt "$RUN/trained" ]; then # attention, to be opened in a browser
  fairseq-attn extract "$BIN" --path "$RUN/checkpoint_best.pt" --gen-subset test --out "$RUN/attention.jsonl" \
    --overwrite ${CPU:+--cpu}
  fairseq-attn explore "$RUN/attention.jsonl" --out "$RUN/explore.html"
fi
