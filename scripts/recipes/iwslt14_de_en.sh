#!/usr/bin/env bash
# IWSLT'14 German-English for latent alignment models: 160K pairs of TED talks, 7,283 to tune, 6,750 to test.
#
#   bash scripts/recipes/iwslt14_de_en.sh [prepare|train|generate|score|all] [--dry-run] [-- fairseq-train options]
#
# Environment variables (default):
#   SRC, TGT   de and en, in either order (de, en)
#   ARCH       lstm_latent: the paper's sizes, lstm_latent_small, or, with OBJECTIVE=soft, any other (lstm_latent)
#   OBJECTIVE  soft, marginal, hard-enum, hard-reinforce, elbo-enum, elbo-reinforce, elbo-gumbel, elbo-sum-and-sample,
#              wake-sleep or dirichlet (elbo-enum; none with a TEACHER or ARCH=lstm_agreement)
#   TOPK       translate from so many alignments a word instead of all; results in a folder topTOPK (all)
#   ATTENTION  any --attention in the place of the architecture's own: structured, sigmoid, local-m, local-p, ... (its own)
#   BIAS       --attention-bias: position, markov, fertility, or several with commas between them (none)
#   TEACHER    checkpoint of a trained model whose alignments guide the attention of ARCH=lstm_soft or another (none)
#   OUT        folder for all that is written (out/iwslt14_de_en of the checkout)
#   DATA       folder with the corpus, instead of a download (WIT3 terms): the unpacked archive, or plain files train,
#              valid and test, each as .de and .en (or .gz), which are taken as they are: tokenised and lower-cased
#   SEED       (1)
#   BPE        subword-nmt, sentencepiece or none, joint over both languages (subword-nmt)
#   BPE_SIZE   merges, or pieces of sentencepiece (14000)
#   LONGEST    training pairs with more tokens on a side, after BPE, are left out, 0: none (125)
#   SPLIT      what generate and score work on: test or valid (test)
#   DEVICE     auto, cpu or cuda (auto: CUDA if torch sees a device)
#   JOBS       processes for the preparation (all cores);  GENERATE_OPTIONS  more options for fairseq-generate
#   DRY_RUN    1: print the commands and run none (0)
#   CORPUS_URL a mirror of the archive's folder
#
# Hyper-parameters: those of Deng et al. 2018 (6 sentences a batch, loss per sentence, Adam 3e-4, clipping at 5, dropout
# 0.3, the rate halved whenever an epoch does not improve validation, 30 epochs; beam 10 with the exact marginal).
# Text: the split that is usual for this corpus, Moses-tokenised and lower-cased; scripts/recipes/iwslt14.py says how.
# Scores: BLEU of the tokenised text as it stands (sacreBLEU, --tokenize none --lowercase), as the paper's, and, where
# the archive was read, of the detokenised test set. Stages that are done are not done again; a training continues.
set -euo pipefail
RECIPE=iwslt14_de_en
LANGUAGES="de en"
AT_HOME="the unpacked archive de-en.tgz, or train, valid and test, each as .de.gz and .en.gz (or unzipped)"
: "${SRC:=de}" "${TGT:=en}" "${ARCH:=lstm_latent}"
case ${TEACHER:-}:$ARCH in
  :lstm_agreement*) ;; # these two have criterions of their own
  :*) : "${OBJECTIVE:=elbo-enum}" ;;
esac
: "${BPE:=subword-nmt}" "${BPE_SIZE:=14000}" "${LONGEST:=125}"
: "${CORPUS_URL:=http://dl.fbaipublicfiles.com/fairseq/data/iwslt14}" # a copy of WIT3's archive
LOWERCASE=1
EPOCH_UPDATES=26700 # about as many

PREPROCESS=()
BATCH=(--batch-size 6 --required-batch-size-multiple 1)
OPTIMIZER=(--optimizer adam --lr 3e-4)
SCHEDULE=(--lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5)
CRITERION=(--criterion label_smoothed_cross_entropy) # without smoothing, as the objectives; OBJECTIVE replaces it
OTHER=(--sentence-avg --dropout 0.3 --clip-norm 5 --max-epoch 30)
# an epoch is long: a checkpoint every 10,000 updates bounds what an interruption costs
OTHER+=(--save-interval-updates 10000 --keep-interval-updates 1)
GENERATE=()
TEST_SETS=(TED.dev2010 TEDX.dev2012 TED.tst2010 TED.tst2011 TED.tst2012)

holds_archive() { compgen -G "$1/train.tags.*" || compgen -G "$1/IWSLT14.TED*"; } >/dev/null

read_archive() { # read_archive FOLDER
  local options=(--tokenize --keep-punctuation --lowercase)
  run python "$HERE/iwslt14.py" extract "$1" "$PARTIAL" "${TEST_SETS[@]}" || exit 1
  CORPUS=$PARTIAL read_split all all.de all.en 167000 "${options[@]}"
  CORPUS=$PARTIAL read_split test test.de test.en 6750 "${options[@]}" --raw
  run python "$HERE/iwslt14.py" split "$PARTIAL/text" || exit 1
}

read_corpus() {
  local language name missing="" members=()
  if [ -z "$DATA" ]; then
    for language in de en; do
      members+=("de-en/train.tags.de-en.$language")
      for name in "${TEST_SETS[@]}"; do members+=("de-en/IWSLT14.$name.de-en.$language.xml"); done
    done
    fetch "$CORPUS_URL/de-en.tgz" de-en.tgz 10000000
    unpack de-en.tgz "${members[@]}"
    read_archive "$CORPUS"
  elif holds_archive "$CORPUS"; then
    read_archive "$CORPUS"
  elif holds_archive "$CORPUS/de-en"; then
    read_archive "$CORPUS/de-en"
  else
    for language in de en; do
      name=train.$language
      [ -f "$CORPUS/$name.gz" ] || [ -f "$CORPUS/$name" ] || missing+="${missing:+, }$name.gz"
    done
    [ -z "$missing" ] ||
      die "the training part is missing in DATA=$DATA: no $missing (or unzipped); expected $AT_HOME"
    read_split train train.de train.en 160000 --drop-empty
    read_split valid valid.de valid.en 7282
    read_split test test.de test.en 6750
  fi
}

# shellcheck source=scripts/recipes/_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/_common.sh"
recipe_main "$@"
