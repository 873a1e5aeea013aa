#!/usr/bin/env bash
# Polarity 2.0 (Pang and Lee 2004): 2,000 film reviews, positive or negative, in ten folds. For research use.
#
#   bash scripts/recipes/polarity_han.sh [prepare|train|evaluate|baseline|table|all] [--dry-run] [-- fairseq-train options]
#
# Environment variables (default):
#   FOLDS      test folds, of 0 to 9 ("0 1 2")
#   MODELS     any of han, han_flat, han_mean ("han han_flat han_mean")
#   OUT        folder for all that is written (out/polarity_han of the checkout)
#   DATA       folder with the corpus, instead of a download from www.cs.cornell.edu
#   EMBEDDINGS pretrained word vectors as text, 100 wide unless -- --word-embed-dim says otherwise (none)
#   SEED       (1)
#   THRESHOLD  words that the training set has less often are unknown (3)
#   SPLIT      what evaluate, baseline and table work on: test or valid (test)
#   DEVICE     auto, cpu or cuda (auto: CUDA if torch sees a device)
#   JOBS       processes for the preparation (all cores);  DRY_RUN  1: print the commands and run none (0)
#   CORPUS_URL a mirror of the archive
#
# Review cvNNN is in fold NNN / 100. Of fold K's run, fold K is the test set, fold K + 1 (after 9: 0) the validation set,
# by whose accuracy the epoch is chosen, and the other 1,600 reviews are for training, TF-IDF's too. Text as the corpus
# has it: tokenised, lower-cased, a sentence a line. Stages that are done are not done again; an interrupted training
# continues.
set -euo pipefail
RECIPE=polarity_han
TITLE="Polarity 2.0"
AT_HOME="review_polarity.tar.gz, its txt_sentoken/{neg,pos}/cvNNN_*.txt, or polarity.jsonl (or .gz)"
: "${FOLDS:=0 1 2}" "${MODELS:=han han_flat han_mean}"
: "${CORPUS_URL:=https://www.cs.cornell.edu/people/pabo/movie-review-data}"
# shellcheck source=scripts/recipes/_documents.sh
source "$(dirname "${BASH_SOURCE[0]}")/_documents.sh"

BATCH=(--batch-size 16 --required-batch-size-multiple 1)
OPTIMIZER=(--optimizer adam --lr 1e-3)
SCHEDULE=(--lr-scheduler fixed --force-anneal 6 --lr-shrink 0.5)
CRITERION=(--criterion document_classification)
MODEL_OPTIONS=(--task document_classification --word-embed-dim 100 --dropout 0.5 --clip-norm 5 --num-workers 0
  --best-checkpoint-metric accuracy --maximize-best-checkpoint-metric)

# A flat model learns more slowly, in epochs that take a fifth of the time.
epochs_of() { case $1 in han_flat) echo 15 ;; *) echo 10 ;; esac; }

check_recipe() {
  local fold
  PARTS=""
  for fold in $FOLDS; do
    case $fold in [0-9]) ;; *) die "FOLDS: $fold is no fold: expected some of 0 to 9, as in FOLDS=\"0 1 2\"" ;; esac
    PARTS+="fold$fold "
  done
  [ -n "$PARTS" ] || die "FOLDS is empty: expected some of 0 to 9, as in FOLDS=\"0 1 2\""
}

read_part() {
  if [ -z "$DATA" ]; then fetch "$CORPUS_URL/review_polarity.tar.gz" review_polarity.tar.gz 2000000; fi
  run python "$HERE/polarity.py" --folder "$CORPUS" --fold "${1#fold}" --to "$PARTIAL/text" ${STRICT:+--strict} || exit 1
}

documents_main "$@"
