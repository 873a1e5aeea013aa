#!/usr/bin/env bash
# Tatoeba sentence pairs of manythings.org/anki (CC BY 2.0): English with Spanish (119K pairs) or Vietnamese (8K).
#
#   bash scripts/recipes/tatoeba.sh [prepare|train|generate|score|all] [--dry-run] [-- fairseq-train options]
#
# Environment variables (default):
#   PAIR       spa-eng or vie-eng (spa-eng)
#   SRC, TGT   en and es, or en and vi, in either order (en, the other)
#   ARCH       lstm_soft, lstm_adm, lstm_adm_aqt, or lstm: stock fairseq's in the same sizes (lstm_adm)
#   ATTENTION  any --attention in the place of the architecture's own: structured, sigmoid, local-m, local-p, ... (its own)
#   BIAS       --attention-bias: position, markov, fertility, or several with commas between them (none)
#   TEACHER    checkpoint of a trained model whose alignments guide the attention (none)
#   OUT        folder for all that is written (out/tatoeba-PAIR of the checkout)
#   DATA       folder with spa.txt or vie.txt (or .gz), instead of a download from manythings.org
#   SEED       (1)
#   BPE        subword-nmt, sentencepiece or none, joint over both languages (subword-nmt)
#   BPE_SIZE   merges, or pieces of sentencepiece (8000)
#   SPLIT      what generate and score work on: test or valid (test)
#   DEVICE     auto, cpu or cuda (auto: CUDA if torch sees a device)
#   JOBS       processes for the preparation (all cores);  GENERATE_OPTIONS  more options for fairseq-generate
#   DRY_RUN    1: print the commands and run none (0)
#   CORPUS_URL a mirror of the zip files
#
# The file has no splits of its own. About 90 / 5 / 5 % are made from a fixed hash, such that no sentence of either
# side occurs in two splits: scripts/recipes/split_pairs.py says how. The file grows from year to year, and scores are
# comparable only for the same file. Text: Moses-tokenised, case kept.
# Scores: BLEU of the tokenised text as it stands (sacreBLEU, --tokenize none) and of the detokenised text against the
# original references. Stages that are done are not done again; an interrupted training continues.
set -euo pipefail
RECIPE=tatoeba
: "${PAIR:=spa-eng}" "${CORPUS_URL:=https://www.manythings.org/anki}"
case $PAIR in
  spa-eng) LANGUAGES="en es" FILE=spa.txt PAIRS=100000 BYTES=2000000 ;;
  vie-eng) LANGUAGES="en vi" FILE=vie.txt PAIRS=7000 BYTES=200000 ;;
  *)
    echo "tatoeba: PAIR=$PAIR is unknown: expected spa-eng or vie-eng" >&2
    exit 1
    ;;
esac
AT_HOME="$FILE (or $FILE.gz)"
# the language that is not given follows from the one that is
if [ -z "${SRC:-}" ]; then SRC=en; if [ "${TGT:-}" = en ]; then SRC=${LANGUAGES#* }; fi; fi
if [ -z "${TGT:-}" ]; then TGT=${LANGUAGES#* }; if [ "$SRC" != en ]; then TGT=en; fi; fi
: "${BPE:=subword-nmt}" "${BPE_SIZE:=8000}"

# shellcheck source=scripts/recipes/_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/_common.sh"
: "${OUT:=$ROOT/out/tatoeba-$PAIR}"
PREPARE_SETTINGS="pair $PAIR"
PREPROCESS=()
# the multiple: batches as full as the limit allows, not rounded down to a multiple of 8
BATCH=(--max-tokens 2000 --required-batch-size-multiple 1)
OPTIMIZER=(--optimizer adam --lr 1e-3)
SCHEDULE=(--lr-scheduler fixed --force-anneal 9 --lr-shrink 0.5)
CRITERION=(--criterion label_smoothed_cross_entropy --label-smoothing 0.1)
OTHER=(--dropout 0.2 --clip-norm 5 --max-epoch 12)
GENERATE=(--max-len-a 1.5 --max-len-b 20)

read_corpus() {
  local split
  if [ -z "$DATA" ]; then
    fetch "$CORPUS_URL/$PAIR.zip" "$PAIR.zip" "$BYTES"
    unpack "$PAIR.zip" "$FILE"
  fi
  # shellcheck disable=SC2086 # two words
  run python "$HERE/split_pairs.py" --folder "$CORPUS" --file "$FILE" --languages $LANGUAGES --to "$PARTIAL" \
    --at-least "$PAIRS" ${STRICT:+--strict} || exit 1
  for split in train valid test; do
    CORPUS=$PARTIAL read_split "$split" "$split.${LANGUAGES% *}" "$split.${LANGUAGES#* }" 1 --tokenize --raw
  done
}

recipe_main "$@"
