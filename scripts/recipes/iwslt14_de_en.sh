#!/usr/bin/env bash
# IWSLT'14 German-English for latent alignment models: 160K pairs of TED talks, 7,283 to tune, 6,750 to test.
#
#   bash scripts/recipes/iwslt14_de_en.sh [prepare|train|generate|score|all] [--dry-run] [-- fairseq-train options]
#
# Environment variables (default):
#   SRC, TGT   de and en, in either order (de, en)
#   ARCH       lstm_latent: the paper's sizes, lstm_latent_small, or any other (lstm_latent)
#   OBJECTIVE  soft, marginal, hard-enum, hard-reinforce, elbo-enum, elbo-reinforce, elbo-gumbel, elbo-sum-and-sample,
#              wake-sleep or dirichlet (elbo-enum; none with a TEACHER, or with an ARCH without latent alignments,
#              whose only one is soft)
#   TOPK       alignments per word in translation; the results are in a folder topTOPK (all)
#   ATTENTION  --attention instead of the architecture's own: structured, sigmoid, local-m, local-p, ... (its own)
#   BIAS       --attention-bias: position, markov, fertility, or several with commas between them (none)
#   TEACHER    checkpoint of a trained model whose alignments guide the attention of ARCH=lstm_soft or another (none)
#   OUT        folder for all files (out/iwslt14_de_en of the checkout)
#   DATA       folder with the corpus, instead of a download (WIT3 terms): the unpacked archive, or plain files train,
#              valid and test, each as .de and .en (or .gz), already tokenised and lower-cased
#   SEED       (1)
#   BPE        subword-nmt, sentencepiece or none, joint over both languages (subword-nmt)
#   BPE_SIZE   merges, or pieces of sentencepiece (14000)
#   LONGEST    training pairs with more tokens on a side, after BPE, are dropped, 0: none (125)
#   SPLIT      the split of generate and score, test or valid (test)
#   DEVICE     auto, cpu or cuda (auto: CUDA if torch sees a device)
#   JOBS       processes for the preparation (all cores)
#   GENERATE_OPTIONS more options for fairseq-generate
#   DRY_RUN    1: show the commands and run none (0)
#   CORPUS_URL a mirror of the archive's folder
#
# Hyper-parameters: those of Deng et al. 2018 (6 sentences per batch, loss per sentence, Adam 3e-4, clipping at 5,
# dropout 0.3, 30 epochs, the rate halved after every epoch without a better bound on the validation set, which also
# chooses the best checkpoint; beam 10 with the exact marginal, length penalty and end-of-sentence normalisation).
# Text: the usual split of this corpus, Moses-tokenised and lower-cased, described in the module
# fairseq_attn_plugin.recipes.text.iwslt14. Scores: BLEU of the tokenised text (sacreBLEU, --tokenize none --lowercase),
# as in the paper, and of the detokenised test set if the archive was read. Finished stages do not run again; an
# interrupted training continues.
exec bash "$(dirname "${BASH_SOURCE[0]}")/_run.sh" iwslt14_de_en "$@"
