#!/usr/bin/env bash
# Multi30k: German-English captions of images, 29,000 / 1,014 / 1,000 (test_2016_flickr). For research use.
#
#   bash scripts/recipes/multi30k.sh [prepare|train|generate|score|all] [--dry-run] [-- fairseq-train options]
#
# Environment variables (default):
#   SRC, TGT   de and en, in either order (de, en)
#   ARCH       lstm_soft, lstm_adm, lstm_adm_aqt, lstm: stock fairseq's in the same sizes, or, with an OBJECTIVE,
#              lstm_latent_small or lstm_latent (lstm_adm)
#   OBJECTIVE  soft, marginal, hard-enum, hard-reinforce, elbo-enum, elbo-reinforce, elbo-gumbel, elbo-sum-and-sample,
#              wake-sleep or dirichlet: trains latent alignments with it, without label smoothing (none)
#   TOPK       translate from so many alignments a word instead of all; results in a folder topTOPK (all)
#   ATTENTION  any --attention in the place of the architecture's own: structured, sigmoid, local-m, local-p, ... (its own)
#   BIAS       --attention-bias: position, markov, fertility, or several with commas between them (none)
#   TEACHER    checkpoint of a trained model whose alignments guide the attention (none)
#   OUT        folder for all that is written (out/multi30k of the checkout)
#   DATA       folder with the corpus, instead of a download from github.com/multi30k/dataset
#   SEED       (1)
#   BPE        subword-nmt, sentencepiece or none, joint over both languages (subword-nmt)
#   BPE_SIZE   merges, or pieces of sentencepiece (8000)
#   SPLIT      what generate and score work on: test or valid (test)
#   DEVICE     auto, cpu or cuda (auto: CUDA if torch sees a device)
#   JOBS       processes for the preparation (all cores);  GENERATE_OPTIONS  more options for fairseq-generate
#   DRY_RUN    1: print the commands and run none (0)
#   CORPUS_URL a mirror of the raw files
#
# Text: lower-cased, Moses-tokenised. Where DATA holds the corpus's own *.tok.* files these are taken, else the raw
# ones are tokenised here. Scores: BLEU of the lower-cased, tokenised text as it stands (sacreBLEU, --tokenize none
# --lowercase), and, where the raw references are there, of the detokenised text with sacreBLEU's own tokeniser.
# Stages that are done are not done again; an interrupted training continues from its last checkpoint.
set -euo pipefail
RECIPE=multi30k
LANGUAGES="de en"
AT_HOME="train, val and test_2016_flickr, each as .de.gz and .en.gz (or unzipped)"
: "${SRC:=de}" "${TGT:=en}" "${BPE:=subword-nmt}" "${BPE_SIZE:=8000}"
: "${CORPUS_URL:=https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw}"
LOWERCASE=1
EPOCH_UPDATES=260 # about as many

PREPROCESS=()
BATCH=(--max-tokens 2000)
OPTIMIZER=(--optimizer adam --lr 1e-3)
SCHEDULE=(--lr-scheduler fixed --force-anneal 12 --lr-shrink 0.6)
CRITERION=(--criterion label_smoothed_cross_entropy --label-smoothing 0.1)
case ${ARCH:-} in
  lstm_structured | lstm_sigmoid) DROPOUT=0.3 ;; # their paper's, and their own default
  *) DROPOUT=0.2 ;;
esac
OTHER=(--dropout "$DROPOUT" --clip-norm 5 --max-epoch 18)
GENERATE=()

read_part() { # read_part SPLIT NAME PAIRS [options]
  local split=$1 name=$2 pairs=$3
  shift 3
  read_split "$split" "$name.de" "$name.en" "$pairs" --tokenized "$name.tok.de" "$name.tok.en" --tokenize --lowercase "$@"
}

read_corpus() {
  local language
  if [ -z "$DATA" ]; then
    for language in de en; do
      fetch "$CORPUS_URL/train.$language.gz" "train.$language.gz" 300000
      fetch "$CORPUS_URL/val.$language.gz" "val.$language.gz" 10000
      fetch "$CORPUS_URL/test_2016_flickr.$language.gz" "test_2016_flickr.$language.gz" 10000
    done
  fi
  read_part train train 29000 --drop-empty
  read_part valid val 1014 --raw
  read_part test test_2016_flickr 1000 --raw
}

# shellcheck source=scripts/recipes/_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/_common.sh"
recipe_main "$@"
