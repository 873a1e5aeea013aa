#!/usr/bin/env bash
# The synthetic corpus of the package: 6,000 pairs of two invented languages, Velarin and Dormeth, with gold alignments.
#
#   fairseq-attn recipe toy_corpus [prepare] [options of fairseq-train]
#
# Variables (default): SRC and TGT, vr and dm in either order (vr, dm); ARCH (lstm_adm); SEED (1);
# OUT, folder for all files (out/toy_corpus); DATA, a folder of python -m fairseq_attn_plugin.toy_corpus, for other
# sizes and seeds; DEVICE, cpu or auto (auto: a GPU if there is one).
# Scores: BLEU of the words, and the alignment error rate of the attention against the gold links.
# A second call continues: what is there is not made again. With prepare, it ends before the training.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command -v fairseq-attn >/dev/null || PATH=$ROOT/.venv/bin:$PATH # the environment of the checkout

SRC=${SRC:-vr} TGT=${TGT:-dm} ARCH=${ARCH:-lstm_adm} SEED=${SEED:-1} DEVICE=${DEVICE:-auto} DATA=${DATA:-}
OUT=${OUT:-out/toy_corpus} CPU=${DEVICE#auto}; export PYTHONIOENCODING=utf-8
DIR=$OUT/$SRC-$TGT.subword-nmt1500
BIN=$DIR/data/bin RUN=$DIR/$ARCH.seed$SEED
[[ $SRC-$TGT =~ ^(vr-dm|dm-vr)$ ]] ||
  { echo "toy_corpus: SRC=$SRC TGT=$TGT: must be vr and dm, in either order" >&2 && exit 1; }
[[ $DEVICE =~ ^(auto|cpu)$ ]] || { echo "toy_corpus: DEVICE=$DEVICE: must be auto or cpu" >&2 && exit 1; }

fairseq-attn prepare toy_corpus --out "$DIR/data" --subwords subword-nmt --subword-size 1500 ${DATA:+--data "$DATA"}
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
  fairseq-train "$BIN" --user-dir fairseq_attn_plugin --source-lang "$SRC" --target-lang "$TGT" --arch "$ARCH" \
    --dropout 0.2 --optimizer adam --lr 1e-3 --clip-norm 5 --max-tokens 600 --max-epoch 18 \
    --required-batch-size-multiple 1 --lr-scheduler fixed --force-anneal 11 --lr-shrink 0.7 \
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
    --seed "$SEED" --save-dir "$RUN" --no-epoch-checkpoints --log-file "$RUN/train.log" ${CPU:+--cpu} "$@"
  [ ! -e "$RUN/checkpoint_best.pt" ] || touch "$RUN/trained"
fi

if [ ! "$RUN/test.hyp" -nt "$RUN/trained" ]; then
  fairseq-generate "$BIN" --user-dir fairseq_attn_plugin --source-lang "$SRC" --target-lang "$TGT" \
    --path "$RUN/checkpoint_best.pt" --gen-subset test --beam 10 --batch-size 64 \
    --remove-bpe ${CPU:+--cpu} >"$RUN/generate.txt"
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
case $SRC in vr) GOLD=test.align ;; *) GOLD=test.dm-vr.align ;; esac
fairseq-attn aer --gold "$DIR/data/text/$GOLD" "$RUN/attention.jsonl"
