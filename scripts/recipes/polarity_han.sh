#!/usr/bin/env bash
# Polarity 2.0 (Pang and Lee 2004): 2,000 film reviews, positive or negative, in ten folds. For research use.
#
#   bash scripts/recipes/polarity_han.sh [prepare|train|evaluate|baseline|table|all] [--dry-run] [-- options]
#
# The options are those of fairseq-train. Environment variables (default):
#   FOLDS      test folds, of 0 to 9 ("0 1 2")
#   MODELS     any of han, han_flat, han_mean ("han han_flat han_mean")
#   OUT        folder for all files (out/polarity_han of the checkout)
#   DATA       folder with the corpus, instead of a download from www.cs.cornell.edu
#   EMBEDDINGS pretrained word vectors as text, of the width of -- --word-embed-dim, by default 100 (none)
#   SEED       (1)
#   THRESHOLD  words with fewer occurrences in the training set are unknown (3)
#   SPLIT      the split of evaluate, baseline and table, test or valid (test)
#   DEVICE     auto, cpu or cuda (auto: CUDA if torch sees a device)
#   JOBS       processes for the preparation (all cores)
#   DRY_RUN    1: show the commands and run none (0)
#   CORPUS_URL a mirror of the archive
#
# Review cvNNN is in fold NNN / 100. In the run of fold K, fold K is the test set and fold K + 1 (after 9: 0) the
# validation set, whose accuracy selects the epoch. The other 1,600 reviews are the training set, also for TF-IDF. The
# text of the corpus is tokenised and lower-cased, with one sentence per line. Finished stages do not run again; an
# interrupted training continues.
exec bash "$(dirname "${BASH_SOURCE[0]}")/_run.sh" polarity_han "$@"
