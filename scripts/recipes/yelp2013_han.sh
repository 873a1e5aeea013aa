#!/usr/bin/env bash
# Yelp 2013 as split by Tang, Qin and Liu (2015): 335,018 reviews of one to five stars, 80 / 10 / 10 %.
#
#   bash scripts/recipes/yelp2013_han.sh [prepare|train|evaluate|baseline|table|all] [--dry-run] [-- options]
#
# The options are those of fairseq-train. Environment variables (default):
#   MODELS     any of han, han_flat, han_mean (han)
#   OUT        folder for all files (out/yelp2013_han of the checkout)
#   DATA       folder with the three files, instead of a download from ir.hit.edu.cn (a 7z archive of four corpora, for
#              which 7z, 7za or bsdtar is necessary)
#   EMBEDDINGS pretrained word vectors as text, of the width of -- --word-embed-dim, by default 200 (none)
#   SEED       (1)
#   THRESHOLD  words with fewer occurrences in the training set are unknown (6)
#   SPLIT      the split of evaluate, baseline and table, test or valid (test)
#   DEVICE     auto, cpu or cuda (auto: CUDA if torch sees a device)
#   JOBS       processes for the preparation (all cores)
#   DRY_RUN    1: show the commands and run none (0)
#   CORPUS_URL a mirror of the archive
#
# Sizes and batches are those of Yang et al. 2016: GRUs of 50 units per direction, embeddings of 200, words with more
# than five occurrences, batches of 64, SGD with momentum 0.9. The paper chooses the learning rate by a grid search and
# starts from word2vec of the training and validation text (EMBEDDINGS). The text of the corpus is tokenised and split
# into sentences. Finished stages do not run again; an interrupted training continues.
exec bash "$(dirname "${BASH_SOURCE[0]}")/_run.sh" yelp2013_han "$@"
