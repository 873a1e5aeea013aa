#!/usr/bin/env bash
# Yelp 2013 as split by Tang, Qin and Liu (2015): 335,018 reviews of one to five stars, 80 / 10 / 10 %.
#
#   bash scripts/recipes/yelp2013_han.sh [prepare|train|evaluate|baseline|table|all] [--dry-run] [-- fairseq-train options]
#
# Environment variables (default):
#   MODELS     any of han, han_flat, han_mean (han)
#   OUT        folder for all that is written (out/yelp2013_han of the checkout)
#   DATA       folder with the three files, instead of a download from ir.hit.edu.cn (a 7z archive of four corpora, which
#              needs 7z, 7za or bsdtar)
#   EMBEDDINGS pretrained word vectors as text, 200 wide unless -- --word-embed-dim says otherwise (none)
#   SEED       (1)
#   THRESHOLD  words that the training set has less often are unknown (6)
#   SPLIT      what evaluate, baseline and table work on: test or valid (test)
#   DEVICE     auto, cpu or cuda (auto: CUDA if torch sees a device)
#   JOBS       processes for the preparation (all cores);  DRY_RUN  1: print the commands and run none (0)
#   CORPUS_URL a mirror of the archive
#
# Sizes and batches as in Yang et al. 2016: GRUs of 50 units per direction, embeddings of 200, words that occur more than
# five times, batches of 64, SGD with momentum 0.9; the paper draws the learning rate from a grid search and starts from
# word2vec of the training and validation text (EMBEDDINGS). Text as the corpus has it: tokenised, sentences split.
# Stages that are done are not done again; an interrupted training continues.
set -euo pipefail
RECIPE=yelp2013_han
TITLE="Yelp 2013"
PARTS=all
AT_HOME="yelp-2013-{train,dev,test}.txt.ss"
: "${MODELS:=han}" "${THRESHOLD:=6}"
: "${CORPUS_URL:=http://ir.hit.edu.cn/~dytang/paper/emnlp2015}"
# shellcheck source=scripts/recipes/_documents.sh
source "$(dirname "${BASH_SOURCE[0]}")/_documents.sh"

BATCH=(--batch-size 64 --required-batch-size-multiple 1)
OPTIMIZER=(--optimizer nag --momentum 0.9 --lr 0.1)
SCHEDULE=(--lr-scheduler fixed --force-anneal 8 --lr-shrink 0.5)
CRITERION=(--criterion document_classification)
MODEL_OPTIONS=(--task document_classification --rnn gru --word-embed-dim 200 --dropout 0.3 --clip-norm 5
  --best-checkpoint-metric accuracy --maximize-best-checkpoint-metric)

epochs_of() { echo 12; }

read_part() {
  local archive=emnlp-2015-data.7z tool
  if [ -z "$DATA" ]; then
    fetch "$CORPUS_URL/$archive" "$archive" 100000000
    if [ "$DRY_RUN" = 1 ] || [ ! -f "$OUT/raw/unpacked" ]; then
      tool=$(command -v 7z || command -v 7za || command -v bsdtar || true)
      [ -n "$tool" ] || [ "$DRY_RUN" = 1 ] ||
        die "$OUT/raw/$archive needs 7z, 7za or bsdtar: install one, or unpack it and pass DATA=folder with $AT_HOME"
      case ${tool:-7z} in
        *bsdtar) run_quietly "$OUT/raw/unpack.log" "$tool" -x -f "$OUT/raw/$archive" -C "$OUT/raw" ;;
        *) run_quietly "$OUT/raw/unpack.log" "${tool:-7z}" x -y "-o$OUT/raw" "$OUT/raw/$archive" ;;
      esac
      run touch "$OUT/raw/unpacked"
    fi
  fi
  run python "$HERE/yelp2013.py" --folder "$CORPUS" --to "$PARTIAL/text" ${STRICT:+--strict} || exit 1
}

documents_main "$@"
