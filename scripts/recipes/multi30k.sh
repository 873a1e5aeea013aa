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
#              wake-sleep or dirichlet: the objective of latent alignments, without label smoothing (none)
#   TOPK       alignments per word in translation; the results are in a folder topTOPK (all)
#   ATTENTION  --attention instead of the architecture's own: structured, sigmoid, local-m, local-p, ... (its own)
#   BIAS       --attention-bias: position, markov, fertility, or several with commas between them (none)
#   TEACHER    checkpoint of a trained model whose alignments guide the attention (none)
#   USER_DIR   folder of code that registers the attention (none)
#   OUT        folder for all files (out/multi30k of the checkout)
#   DATA       folder with the corpus, instead of a download from github.com/multi30k/dataset
#   SEED       (1)
#   BPE        subword-nmt, sentencepiece or none, joint over both languages (subword-nmt)
#   BPE_SIZE   merges, or pieces of sentencepiece (8000)
#   SPLIT      the split of generate and score, test or valid (test)
#   DEVICE     auto, cpu or cuda (auto: CUDA if torch sees a device)
#   JOBS       processes for the preparation (all cores)
#   GENERATE_OPTIONS more options for fairseq-generate
#   DRY_RUN    1: show the commands and run none (0)
#   CORPUS_URL a mirror of the raw files
#
# Text: lower-cased, Moses-tokenised. The recipe reads the *.tok.* files of the corpus if DATA has them; otherwise it
# tokenises the raw files. Scores: BLEU of the lower-cased, tokenised text (sacreBLEU, --tokenize none --lowercase).
# If the raw references exist, also BLEU of the detokenised text with sacreBLEU's own tokeniser.
# Finished stages do not run again; an interrupted training continues from its last checkpoint.
exec bash "$(dirname "${BASH_SOURCE[0]}")/_run.sh" multi30k "$@"
