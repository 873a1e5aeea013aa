#!/usr/bin/env bash
# Election attention on English-Spanish pairs of Tatoeba (manythings.org/anki, CC BY 2.0), from raw file to table.
#
#   bash scripts/recipes/tatoeba_election.sh [STAGE...|all] [--dry-run] [-- fairseq-train options of all systems]
#
# Stages, in this order; all is the default:
#   prepare         prepares the corpus
#   teacher         trains lstm_soft with additive attention, its weights divided by their maximum
#   election        runs the election of the teacher's attention on the validation set: rule of the window, sigma,
#                   satisfaction
#   agent           trains the Q-learned agent: the table of source words for each target word
#   mask            lstm_gaussian with the teacher's parameters and the mask of the election, not trained
#   mask-words      lstm_election with the teacher's parameters, the mask and the agent's words, not trained
#   gaussian        lstm_gaussian, trained from the teacher's parameters
#   election-model  lstm_election, trained from the teacher's parameters
#   generate        translates with all SYSTEMS
#   score           computes their BLEU, with its signature
#   table           writes scores and satisfaction, compared with the paper, to WORK/table.seedSEED.md
#
# Environment variables (default):
#   PAIRS      equal: the pairs with equally many words on both sides; all: every pair (equal)
#   SRC, TGT   en and es, in either order (en, es)
#   OUT        folder for all files (out/tatoeba_election of the checkout)
#   DATA       folder with spa.txt (or .gz), instead of a download from manythings.org
#   SEED       (1)
#   BPE        none, subword-nmt or sentencepiece, joint over both languages (none for equal, subword-nmt for all)
#   BPE_SIZE   merges, or pieces of sentencepiece (8000)
#   EPOCHS     epochs of the teacher's training (12)
#   TUNE_EPOCHS   epochs of the training of gaussian and election-model (6)
#   MAX_NORMALIZE   1: weights are divided by their maximum; 0: by their sum, in all systems (1)
#   ARCH_OPTIONS   options of the model in all systems, such as sizes (none)
#   TEACHER    a checkpoint of a teacher, instead of training one (none)
#   ELECTION_OPTIONS, AGENT_OPTIONS   more options for the election and for the agent's training (none)
#   EMBEDDINGS_SOURCE, EMBEDDINGS_TARGET   files of word vectors of one space, such as MUSE's (made from
#              the training pairs)
#   SYSTEMS    systems to train and to score ("teacher mask mask-words gaussian election-model")
#   BEAM       (5)
#   SPLIT      the split that is translated, test or valid (test)
#   DEVICE     auto, cpu or cuda (auto: CUDA if torch sees a device)
#   JOBS       processes for the preparation (all cores)
#   GENERATE_OPTIONS more options for fairseq-generate
#   DRY_RUN    1: show the commands and run none (0)
#   CORPUS_URL a mirror of the zip file
#
# A fixed hash makes splits of about 90 / 5 / 5 % of all pairs. No sentence of either side, up to case and punctuation,
# occurs in two splits: see the module fairseq_attn_plugin.recipes.text.pair_splits. PAIRS=equal then keeps the pairs of
# each split with equally many words between white space: its test set is part of the test set of PAIRS=all.
# Text of PAIRS=equal: these words, lower-cased, without the punctuation at their ends, so that both sides have the same
# number of words. Text of PAIRS=all: lower-cased, Moses-tokenised.
# Scores: BLEU of this text (sacreBLEU, --tokenize none --lowercase); for PAIRS=all also of the detokenised text against
# the original references. The file grows from year to year, and scores are comparable only for the same file. Finished
# stages do not run again; an interrupted training continues.
exec bash "$(dirname "${BASH_SOURCE[0]}")/_run.sh" tatoeba_election "$@"
