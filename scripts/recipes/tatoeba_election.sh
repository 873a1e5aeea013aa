#!/usr/bin/env bash
# Election attention on English-Spanish pairs of Tatoeba (manythings.org/anki, CC BY 2.0): five systems, their scores.
#
#   fairseq-attn recipe tatoeba_election [prepare] [options of fairseq-train for all systems]
#
# Variables (default): PAIRS, equal: pairs with as many words on both sides, or all (equal); SRC and TGT, en and es in
# either order (en, es); SEED (1); OUT, folder for all files (out/tatoeba_election); DATA, folder with spa.txt in place
# of a download; DEVICE, cpu or auto (auto: a GPU if there is one).
# Paper: Bal and Sinha, "Modelling Bahdanau Attention using Election methods aided by Q-Learning". Its BLEU, on
# equal pairs: teacher 24.22, mask 23.02, mask-words 23.65. Its satisfaction for log4, log3, log2, half: 55.01, 90.17,
# 93.22, 96.24. mask and mask-words have the teacher's parameters, and are not trained further; the other two are.
# A second call continues: what is there is not made again. With prepare, it ends before the training.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command -v fairseq-attn >/dev/null || PATH=$ROOT/.venv/bin:$PATH # the environment of the checkout
SRC=${SRC:-en} TGT=${TGT:-es} PAIRS=${PAIRS:-equal} SEED=${SEED:-1} DEVICE=${DEVICE:-auto} DATA=${DATA:-}
OUT=${OUT:-out/tatoeba_election} CPU=${DEVICE#auto}; export PYTHONIOENCODING=utf-8
[[ "$SRC-$TGT $PAIRS $DEVICE" =~ ^(en-es|es-en)\ (equal|all)\ (auto|cpu)$ ]] ||
  { echo "PAIRS=$PAIRS SRC=$SRC TGT=$TGT DEVICE=$DEVICE: must be equal or all, en and es, auto or cpu" >&2 && exit 1; }
NAME=all.subword-nmt8000 SUBWORDS=(--subwords subword-nmt --subword-size 8000)
[ "$PAIRS" = all ] || NAME=equal.none SUBWORDS=(--equal-words --subwords none)
DIR=$OUT/$SRC-$TGT.$NAME
BIN=$DIR/data/bin TEXT=$DIR/data/segmented TEACHER=$DIR/teacher.seed$SEED WORDS=$DIR/teacher.seed$SEED/words.json
fairseq-attn prepare tatoeba_election --out "$DIR/data" "${SUBWORDS[@]}" \
  --downloads "$OUT/downloads" ${DATA:+--data "$DATA"}
if [ ! -d "$BIN" ]; then
  trap 'rm -rf "$BIN.part.$$"' EXIT
  fairseq-preprocess --source-lang "$SRC" --target-lang "$TGT" --destdir "$BIN.part.$$" \
    --workers "$(getconf _NPROCESSORS_ONLN)" --trainpref "$TEXT/train" --validpref "$TEXT/valid" --testpref "$TEXT/test"
  [ -d "$BIN" ] || mv "$BIN.part.$$" "$BIN"
fi
[ "${1:-}" != prepare ] || exit 0
FROM=(--election-teacher "$TEACHER/checkpoint_best.pt" --gaussian-election "$TEACHER/election.json")
for SYSTEM in teacher mask mask-words gaussian election-model; do
  RUN=$DIR/$SYSTEM.seed$SEED LAST=()
  case $SYSTEM in # the masks get one update that changes nothing
    teacher) MODEL=(--arch lstm_soft --attention-score additive --lr 3e-3 --max-epoch 12 --force-anneal 9) ;;
    mask) MODEL=("${FROM[@]}" --arch lstm_gaussian) LAST=(--lr 0 --max-update 1) ;;
    mask-words) MODEL=("${FROM[@]}" --arch lstm_election --election-table "$WORDS") LAST=(--lr 0 --max-update 1) ;;
    gaussian) MODEL=("${FROM[@]}" --arch lstm_gaussian --lr 2e-3 --max-epoch 6 --force-anneal 5) ;;
    *) MODEL=("${FROM[@]}" --arch lstm_election --election-table "$WORDS" --lr 2e-3 --max-epoch 6 --force-anneal 5) ;;
  esac
  mkdir -p "$RUN"; exec 9>>"$RUN/lock"
  type -P flock >/dev/null && ! flock -n 9 && echo "$RUN: another process works there; wait" >&2 && exit 1
  [[ -e $RUN/checkpoint_last.pt && -e $RUN/options ]] || printf '%s\n' "$*" >"$RUN/options"
  [ "$(cat "$RUN/options")" = "$*" ] ||
    { echo "$RUN: has options '$(cat "$RUN/options")', not '$*': choose another SEED or remove it" >&2 && exit 1; }
  if [ ! "$RUN/trained" -nt "$BIN" ]; then # paper: the weights of the teacher are divided by their maximum
    fairseq-train "$BIN" --user-dir fairseq_attn_plugin --source-lang "$SRC" --target-lang "$TGT" "${MODEL[@]}" \
      --attention-max-normalize --dropout 0.2 --optimizer adam --lr-scheduler fixed --lr-shrink 0.5 --clip-norm 5 \
      --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --max-tokens 2000 \
      --required-batch-size-multiple 1 --seed "$SEED" --save-dir "$RUN" --no-epoch-checkpoints \
      --log-file "$RUN/train.log" ${CPU:+--cpu} "$@" ${LAST[@]+"${LAST[@]}"}
    [ ! -e "$RUN/checkpoint_best.pt" ] || touch "$RUN/trained"
  fi
  [ -e "$TEACHER/election.json" ] || # paper: the rule of the window is chosen by satisfaction, which this prints
    fairseq-attn election "$BIN" --path "$TEACHER/checkpoint_best.pt" --gen-subset valid \
      --out "$TEACHER/election.json" ${CPU:+--cpu}
  [ -e "$WORDS" ] || # paper: the agent learns on the validation set
    fairseq-attn election "$BIN" --agent "$WORDS" --start-split valid --seed "$SEED"
  if [ ! "$RUN/test.hyp" -nt "$RUN/trained" ]; then
    fairseq-generate "$BIN" --user-dir fairseq_attn_plugin --path "$RUN/checkpoint_best.pt" --gen-subset test \
      --beam 5 --batch-size 64 --max-len-a 1.5 --max-len-b 20 --remove-bpe ${CPU:+--cpu} >"$RUN/generate.txt"
    grep '^H-' "$RUN/generate.txt" | LC_ALL=C sort -t- -k2 -n | cut -f 3 >"$RUN/test.hyp.part"
    mv "$RUN/test.hyp.part" "$RUN/test.hyp"
  fi
  echo "$SYSTEM:"
  sacrebleu "$DIR/data/text/test.$TGT" --input "$RUN/test.hyp" --metrics bleu chrf ter --width 2 --tokenize none \
    --force --lowercase --chrf-lowercase | tee "$RUN/test.tokenized.json"
done
