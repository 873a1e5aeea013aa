#!/usr/bin/env bash
# The synthetic corpus of the package: 6,000 pairs of two invented languages, Velarin and Dormeth, with gold alignments.
#
#   bash scripts/recipes/toy_corpus.sh [prepare|train|generate|score|all] [--dry-run] [-- fairseq-train options]
#
# Environment variables (default):
#   SRC, TGT   vr and dm, in either order (vr, dm)
#   CORPUS_SEED    seed of the words and the sentences (1)
#   TRAIN, VALID, TEST   sentence pairs (6000, 300, 300)
#   ARCH       lstm_soft, lstm_adm, lstm_adm_aqt, lstm: stock fairseq's in the same sizes, or, with an OBJECTIVE,
#              lstm_latent_small or lstm_latent (lstm_adm)
#   OBJECTIVE  as in multi30k.sh (none)
#   TOPK       alignments per word in translation; the results are in a folder topTOPK (all)
#   ATTENTION  --attention instead of the architecture's own: structured, sigmoid, local-m, local-p, ... (its own)
#   BIAS       --attention-bias: position, markov, fertility, or several with commas between them (none)
#   TEACHER    checkpoint of a trained model whose alignments guide the attention (none)
#   OUT        folder for all files (out/toy_corpus of the checkout)
#   DATA       folder that python -m fairseq_attn_plugin.toy_corpus wrote, instead of a new one
#   SEED       of the training (1)
#   BPE        subword-nmt, sentencepiece or none, joint over both languages (subword-nmt)
#   BPE_SIZE   merges, or pieces of sentencepiece (1500)
#   SPLIT      the split of generate and score, test or valid (test)
#   DEVICE     auto, cpu or cuda (auto: CUDA if torch sees a device)
#   JOBS       processes for the preparation (all cores)
#   GENERATE_OPTIONS more options for fairseq-generate
#   DRY_RUN    1: show the commands and run none (0)
#
# Scores: BLEU of the words (sacreBLEU, --tokenize none). WORK/data/text/test.align has the gold links of the words, for
# attn-analysis aer. In the leaderboard (DATASET=toy_corpus), the corpus gives the column of alignment error rates.
# Finished stages do not run again; an interrupted training continues from its last checkpoint.
exec bash "$(dirname "${BASH_SOURCE[0]}")/_run.sh" toy_corpus "$@"
