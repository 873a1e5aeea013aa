#!/usr/bin/env bash
# IWSLT'14 German-English for latent alignment models: 160K pairs of TED talks, 7,283 to tune, 6,750 to test.
#
#   fairseq-attn recipe iwslt14_de_en [prepare] [options of fairseq-train]
#
# Variables (default): SRC and TGT, de and en in either order (de, en); ARCH (lstm_latent); SEED (1);
# OUT, folder for all files (out/iwslt14_de_en); DATA, folder in place of a download, with the unpacked de-en.tgz or
# with the text below; DEVICE, cpu or auto (auto: a GPU if there is one).
# Paper: Deng et al. 2018, "Latent Alignment and Variational Attention". Another objective is an option:
#   fairseq-attn recipe iwslt14_de_en --objective marginal --latent-posterior False
# Text: lower-cased, Moses-tokenised, in the usual split. Scores: without regard to case, of the tokenised text, as in
# the paper, and of the detokenised one if the archive was read.
# A second call continues: what is there is not made again. With prepare, it ends before the training.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command -v fairseq-attn >/dev/null || PATH=$ROOT/.venv/bin:$PATH # the environment of the checkout

SRC=${SRC:-de} TGT=${TGT:-en} ARCH=${ARCH:-lstm_latent} SEED=${SEED:-1} DEVICE=${DEVICE:-auto} DATA=${DATA:-}
OUT=${OUT:-out/iwslt14_de_en} CPU=${DEVICE#auto}; export PYTHONIOENCODING=utf-8
DIR=$OUT/$SRC-$TGT.subword-nmt14000
BIN=$DIR/data/bin RUN=$DIR/$ARCH.seed$SEED
[[ $SRC-$TGT =~ ^(de-en|en-de)$ ]] ||
  { echo "iwslt14_de_en: SRC=$SRC TGT=$TGT: must be de and en, in either order" >&2 && exit 1; }
[[ $DEVICE =~ ^(auto|cpu)$ ]] || { echo "iwslt14_de_en: DEVICE=$DEVICE: must be auto or cpu" >&2 && exit 1; }

# paper: 14K merges, training pairs of at most 125 tokens
fairseq-attn prepare iwslt14_de_en --out "$DIR/data" --subwords subword-nmt --subword-size 14000 --longest 125 \
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
  # paper; search: harvardnlp/var-attn. The bound on the validation set halves the rate, chooses the checkpoint
  fairseq-train "$BIN" --user-dir fairseq_attn_plugin --source-lang "$SRC" --target-lang "$TGT" --arch "$ARCH" \
    --attention-score-no-bias --dropout 0.3 --criterion latent_alignment --objective elbo-enum \
    --optimizer adam --lr 3e-4 --clip-norm 5 --batch-size 6 --required-batch-size-multiple 1 --sentence-avg \
    --lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5 --best-checkpoint-metric bound --max-epoch 30 \
    --save-interval-updates 10000 --keep-interval-updates 1 \
    --seed "$SEED" --save-dir "$RUN" --no-epoch-checkpoints --log-file "$RUN/train.log" ${CPU:+--cpu} "$@"
  [ ! -e "$RUN/checkpoint_best.pt" ] || touch "$RUN/trained"
fi

if [ ! "$RUN/test.hyp" -nt "$RUN/trained" ]; then
  fairseq-generate "$BIN" --user-dir fairseq_attn_plugin --source-lang "$SRC" --target-lang "$TGT" \
    --path "$RUN/checkpoint_best.pt" --gen-subset test --beam 10 --batch-size 64 \
    --wu-penalty 1 --eos-norm 3 --remove-bpe --tokenizer moses ${CPU:+--cpu} >"$RUN/generate.txt"
  grep '^D-' "$RUN/generate.txt" | LC_ALL=C sort -t- -k2 -n | cut -f 3 >"$RUN/test.detok.hyp"
  grep '^H-' "$RUN/generate.txt" | LC_ALL=C sort -t- -k2 -n | cut -f 3 >"$RUN/test.hyp.part"
  mv "$RUN/test.hyp.part" "$RUN/test.hyp"
fi
sacrebleu "$DIR/data/text/test.$TGT" --input "$RUN/test.hyp" --metrics bleu chrf ter --width 2 \
  --tokenize none --force --lowercase --chrf-lowercase | tee "$RUN/test.tokenized.json"
[ ! -e "$DIR/data/text/test.raw.$TGT" ] ||
  sacrebleu "$DIR/data/text/test.raw.$TGT" --input "$RUN/test.detok.hyp" --metrics bleu chrf ter --width 2 \
    --lowercase --chrf-lowercase | tee "$RUN/test.detokenized.json"
if [ ! "$RUN/explore.html" -nt "$RUN/trained" ]; then # attention, to be opened in a browser
  fairseq-attn extract "$BIN" --path "$RUN/checkpoint_best.pt" --gen-subset test --out "$RUN/attention.jsonl" \
    --overwrite ${CPU:+--cpu}
  fairseq-attn explore "$RUN/attention.jsonl" --out "$RUN/explore.html"
fi
