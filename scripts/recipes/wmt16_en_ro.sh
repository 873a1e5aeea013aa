#!/usr/bin/env bash
# WMT'16 English-Romanian: Europarl v7 (399K pairs), newsdev2016 to tune, newstest2016 to test (1,999 each).
#
#   bash scripts/recipes/wmt16_en_ro.sh [prepare|train|generate|score|all] [--dry-run] [-- fairseq-train options]
#
# Environment variables (default):
#   SRC, TGT   en and ro, in either order (en, ro)
#   ARCH       lstm_soft, lstm_adm, lstm_adm_aqt, or lstm: stock fairseq's in the same sizes (lstm_adm)
#   ATTENTION  any --attention in the place of the architecture's own: structured, sigmoid, local-m, local-p, ... (its own)
#   BIAS       --attention-bias: position, markov, fertility, or several with commas between them (none)
#   TEACHER    checkpoint of a trained model whose alignments guide the attention (none)
#   OUT        folder for all that is written (out/wmt16_en_ro of the checkout)
#   DATA       folder with the corpus, instead of downloads from statmt.org (and OPUS)
#   CORPORA    europarl, or "europarl setimes": with SETIMES2 (213K pairs) besides, as WMT'16 offered
#              (europarl: its size is the 400K pairs of the paper)
#   SEED       (1)
#   BPE        subword-nmt, sentencepiece or none, joint over both languages (subword-nmt)
#   BPE_SIZE   merges, or pieces of sentencepiece (32000)
#   UPDATES    length of the training; the learning rate is halved at 9/12, 10/12 and 11/12 of it (12000)
#   CUT        training sentences are cut to so many tokens on both sides, 0: never (50)
#   SPLIT      what generate and score work on: test or valid (test)
#   DEVICE     auto, cpu or cuda (auto: CUDA if torch sees a device)
#   JOBS       processes for the preparation (all cores);  GENERATE_OPTIONS  more options for fairseq-generate
#   DRY_RUN    1: print the commands and run none (0)
#   CORPUS_URL, SETIMES_URL  mirrors of data.statmt.org's and statmt.org's folders, and of OPUS
#
# Hyper-parameters: those of the attention-density-matrix paper (plain SGD, dropout 0.2, joint BPE with one dictionary,
# beam 10, at most 50 tokens out) and, where it is silent, those of the TensorFlow seq2seq tutorial that it refers to:
# 12,000 updates of 128 sentences (4 epochs), learning rate 1 on the loss per sentence, halving as above ("luong234"),
# clipping at 5. Text: Moses-tokenised, case and diacritics kept.
# Scores: BLEU of the tokenised text as it stands (sacreBLEU, --tokenize none), as the paper's, and of the detokenised
# text against the original references. Stages that are done are not done again; an interrupted training continues.
set -euo pipefail
RECIPE=wmt16_en_ro
LANGUAGES="ro en"
AT_HOME="europarl-v7.ro-en.{ro,en}, newsdev2016.{ro,en} and newstest2016.{ro,en} (plain, .gz, or WMT's .sgm files)"
: "${SRC:=en}" "${TGT:=ro}" "${BPE:=subword-nmt}" "${BPE_SIZE:=32000}" "${CUT:=50}" "${UPDATES:=12000}"
: "${CORPORA:=europarl}" "${CORPUS_URL:=https://www.statmt.org/europarl/v7}"
: "${NEWS_URL:=https://data.statmt.org/wmt16/translation-task}"
: "${SETIMES_URL:=https://object.pouta.csc.fi/OPUS-SETIMES/v2/moses}"

# shellcheck source=scripts/recipes/_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/_common.sh"
PREPARE_SETTINGS="corpora $CORPORA"
PREPROCESS=(--joined-dictionary)
if [ "$BPE" = none ]; then PREPROCESS=(--nwordssrc 32000 --nwordstgt 32000); fi
# the multiple: batches as full as the limit allows, not rounded down to a multiple of 8
BATCH=(--batch-size 128 --required-batch-size-multiple 1)
OPTIMIZER=(--optimizer sgd --lr 1.0)
tutorial_schedule 1.0 # sets SCHEDULE
CRITERION=(--criterion cross_entropy)
# an epoch is long: a checkpoint every 1,000 updates bounds what an interruption costs
OTHER=(--sentence-avg --dropout 0.2 --clip-norm 5 --max-update "$UPDATES" --save-interval-updates 1000 --keep-interval-updates 1)
GENERATE=(--max-len-a 0 --max-len-b 50)
case $CORPORA in
  europarl | "europarl setimes") ;;
  *) die "CORPORA=$CORPORA is unknown: expected europarl or 'europarl setimes'" ;;
esac

read_corpus() {
  local language
  if [ -z "$DATA" ]; then
    fetch "$CORPUS_URL/ro-en.tgz" ro-en.tgz 40000000
    unpack ro-en.tgz europarl-v7.ro-en.ro europarl-v7.ro-en.en
    fetch "$NEWS_URL/dev.tgz" dev.tgz 1000000
    unpack dev.tgz dev/newsdev2016-roen-src.ro.sgm dev/newsdev2016-roen-ref.en.sgm
    fetch "$NEWS_URL/test.tgz" test.tgz 1000000
    unpack test.tgz test/newstest2016-roen-src.ro.sgm test/newstest2016-roen-ref.en.sgm
    if [ "$CORPORA" != europarl ]; then
      fetch "$SETIMES_URL/en-ro.txt.zip" en-ro.txt.zip 10000000
      unpack en-ro.txt.zip SETIMES.en-ro.ro SETIMES.en-ro.en
    fi
  fi
  read_split train europarl-v7.ro-en.ro europarl-v7.ro-en.en 399000 --tokenize --drop-empty
  if [ "$CORPORA" != europarl ]; then
    read_split setimes SETIMES.en-ro.ro SETIMES.en-ro.en 213000 --tokenize --drop-empty
    for language in ro en; do
      if [ "$DRY_RUN" != 1 ]; then cat "$PARTIAL/text/setimes.$language" >>"$PARTIAL/text/train.$language"; fi
    done
  fi
  read_split valid "newsdev2016.ro|newsdev2016-roen-src.ro.sgm" "newsdev2016.en|newsdev2016-roen-ref.en.sgm" 1999 --tokenize --raw
  read_split test "newstest2016.ro|newstest2016-roen-src.ro.sgm" "newstest2016.en|newstest2016-roen-ref.en.sgm" 1999 --tokenize --raw
}

recipe_main "$@"
