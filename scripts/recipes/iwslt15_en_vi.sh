#!/usr/bin/env bash
# IWSLT'15 English-Vietnamese, as preprocessed at Stanford: 133K pairs of TED talks, tst2012 to tune, tst2013 to test.
#
#   bash scripts/recipes/iwslt15_en_vi.sh [prepare|train|generate|score|all] [--dry-run] [-- fairseq-train options]
#
# Environment variables (default):
#   SRC, TGT   en and vi, in either order (en, vi)
#   ARCH       lstm_soft, lstm_adm, lstm_adm_aqt, or lstm: stock fairseq's in the same sizes (lstm_adm)
#   ATTENTION  any --attention in the place of the architecture's own: structured, sigmoid, local-m, local-p, ... (its own)
#   BIAS       --attention-bias: position, markov, fertility, or several with commas between them (none)
#   TEACHER    checkpoint of a trained model whose alignments guide the attention (none)
#   OUT        folder for all that is written (out/iwslt15_en_vi of the checkout)
#   DATA       folder with the corpus, instead of a download from nlp.stanford.edu/projects/nmt (WIT3 terms)
#   SEED       (1)
#   BPE        subword-nmt, sentencepiece or none (none: word vocabularies, the 17,188 / 7,706 most frequent words of
#              English / Vietnamese; with <unk>, <s> and </s> they are the 17,191 / 7,709 of the paper)
#   BPE_SIZE   merges, or pieces of sentencepiece (8000)
#   UPDATES    length of the training; the learning rate is halved at 9/12, 10/12 and 11/12 of it (12000)
#   CUT        training sentences are cut to so many tokens on both sides, 0: never (50)
#   SPLIT      what generate and score work on: test or valid (test)
#   DEVICE     auto, cpu or cuda (auto: CUDA if torch sees a device)
#   JOBS       processes for the preparation (all cores);  GENERATE_OPTIONS  more options for fairseq-generate
#   DRY_RUN    1: print the commands and run none (0)
#   CORPUS_URL a mirror of the files
#
# Hyper-parameters: those of the attention-density-matrix paper (Adam 1e-3, dropout 0.2, beam 10, at most 50 words
# out) and, where it is silent, those of the TensorFlow seq2seq tutorial for this corpus that it refers to: 12,000
# updates of 128 sentences (12 epochs), the gradient of the loss per sentence clipped at 5, halving as above ("luong234").
# Scores: BLEU of the tokenised text as it stands (sacreBLEU, --tokenize none), as the paper's; the corpus has no
# untokenised references. Stages that are done are not done again; an interrupted training continues.
set -euo pipefail
RECIPE=iwslt15_en_vi
LANGUAGES="en vi"
AT_HOME="train, tst2012 and tst2013, each as .en.gz and .vi.gz (or unzipped)"
: "${SRC:=en}" "${TGT:=vi}" "${BPE:=none}" "${BPE_SIZE:=8000}" "${CUT:=50}" "${UPDATES:=12000}"
: "${CORPUS_URL:=https://nlp.stanford.edu/projects/nmt/data/iwslt15.en-vi}"

# shellcheck source=scripts/recipes/_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/_common.sh"
PREPROCESS=()
if [ "$BPE" = none ]; then
  # the numbers count fairseq's four special symbols
  sizes=(17192 7710)
  if [ "$SRC" = vi ]; then sizes=(7710 17192); fi
  PREPROCESS=(--nwordssrc "${sizes[0]}" --nwordstgt "${sizes[1]}" --padding-factor 1)
fi
# the multiple: batches as full as the limit allows, not rounded down to a multiple of 8
BATCH=(--batch-size 128 --required-batch-size-multiple 1)
OPTIMIZER=(--optimizer adam --lr 1e-3)
tutorial_schedule 1e-3 # sets SCHEDULE
CRITERION=(--criterion cross_entropy)
OTHER=(--sentence-avg --dropout 0.2 --clip-norm 5 --max-update "$UPDATES")
GENERATE=(--max-len-a 0 --max-len-b 50)

read_corpus() {
  local language
  if [ -z "$DATA" ]; then
    for language in en vi; do
      fetch "$CORPUS_URL/train.$language" "train.$language" 10000000
      fetch "$CORPUS_URL/tst2012.$language" "tst2012.$language" 100000
      fetch "$CORPUS_URL/tst2013.$language" "tst2013.$language" 100000
    done
  fi
  read_split train train.en train.vi 133000 --drop-empty
  read_split valid tst2012.en tst2012.vi 1553
  read_split test tst2013.en tst2013.vi 1268
}

recipe_main "$@"
