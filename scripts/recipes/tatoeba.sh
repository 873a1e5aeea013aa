#!/usr/bin/env bash
# Tatoeba sentence pairs of manythings.org/anki (CC BY 2.0): English with another language, as Spanish (119K).
#
#   fairseq-attn recipe tatoeba [prepare] [options of fairseq-train]
#
# Variables (default): PAIR, name of a pair there (spa-eng); SRC and TGT, en and its language in either order (en, es);
# ARCH (lstm_adm); SEED (1); OUT, folder for all files (out/tatoeba-PAIR); DATA, folder with spa.txt or another in place
# of a download; DEVICE, cpu or auto (auto: a GPU if there is one).
# A fixed hash makes splits of 90 / 5 / 5 % in which no sentence of either side is in two: corpora/parallel.py. The
# file grows from year to year; scores are comparable for the same file. Text: Moses-tokenised, with its case.
# A second call continues: what is there is not made again. With prepare, it ends before the training.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command -v fairseq-attn >/dev/null || PATH=$ROOT/.venv/bin:$PATH # the environment of the checkout

PAIR=${PAIR:-spa-eng}
SRC=${SRC:-en} TGT=${TGT:-es} ARCH=${ARCH:-lstm_adm} SEED=${SEED:-1} DEVICE=${DEVICE:-auto} DATA=${DATA:-}
OUT=${OUT:-out/tatoeba-$PAIR} CPU=${DEVICE#auto}; export PYTHONIOENCODING=utf-8
DIR=$OUT/$SRC-$TGT.subword-nmt8000
BIN=$DIR/data/bin RUN=$DIR/$ARCH.seed$SEED
case $TGT in en) OTHER=$SRC ;; *) OTHER=$TGT ;; esac
[[ $OTHER != en && $SRC-$TGT =~ ^(en-$OTHER|$OTHER-en)$ ]] ||
  { echo "tatoeba: SRC=$SRC TGT=$TGT: must be en and the language of $PAIR, in either order" >&2 && exit 1; }
[[ $DEVICE =~ ^(auto|cpu)$ ]] || { echo "tatoeba: DEVICE=$DEVICE: must be auto or cpu" >&2 && exit 1; }

fairseq-attn prepare tatoeba --pair "$PAIR" --language "$OTHER" --out "$DIR/data" --subwords subword-nmt \
  --subword-size 8000 --downloads "$OUT/downloads" ${DATA:+--data "$DATA"}
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
  # dropout: density-matrix paper; its rate, 1e-3, is too low for so few pairs: docs/results/tatoeba.md
  fairseq-train "$BIN" --user-dir fairseq_attn_plugin --source-lang "$SRC" --target-lang "$TGT" --arch "$ARCH" \
    --dropout 0.2 --optimizer adam --lr 3e-3 --clip-norm 5 --max-tokens 1000 --max-epoch 12 \
    --required-batch-size-multiple 1 --lr-scheduler fixed --force-anneal 9 --lr-shrink 0.5 \
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
    --seed "$SEED" --save-dir "$RUN" --no-epoch-checkpoints --log-file "$RUN/train.log" ${CPU:+--cpu} "$@"
  [ ! -e "$RUN/checkpoint_best.pt" ] || touch "$RUN/trained"
fi

if [ ! "$RUN/test.hyp" -nt "$RUN/trained" ]; then
  fairseq-generate "$BIN" --user-dir fairseq_attn_plugin --source-lang "$SRC" --target-lang "$TGT" \
    --path "$RUN/checkpoint_best.pt" --gen-subset test --beam 10 --batch-size 64 \
    --max-len-a 1.5 --max-len-b 20 --remove-bpe --tokenizer moses ${CPU:+--cpu} >"$RUN/generate.txt"
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
