#!/usr/bin/env bash
# WMT'16 English-Romanian: Europarl v7 (399K pairs), newsdev2016 to tune, newstest2016 to test (1,999 each).
#
#   bash scripts/recipes/wmt16_en_ro.sh [prepare|train|generate|score|all] [--dry-run] [-- fairseq-train options]
#
# Environment variables (default):
#   SRC, TGT   en and ro, in either order (en, ro)
#   ARCH       lstm_soft, lstm_adm, lstm_adm_aqt, or lstm: stock fairseq's in the same sizes (lstm_adm)
#   ATTENTION  --attention instead of the architecture's own: structured, sigmoid, local-m, local-p, ... (its own)
#   BIAS       --attention-bias: position, markov, fertility, or several with commas between them (none)
#   TEACHER    checkpoint of a trained model whose alignments guide the attention (none)
#   OUT        folder for all files (out/wmt16_en_ro of the checkout)
#   DATA       folder with the corpus, instead of downloads from statmt.org (and OPUS)
#   CORPORA    europarl, or "europarl setimes": also SETIMES2 (213K pairs), as offered by WMT'16
#              (europarl: its size is the 400K pairs of the paper)
#   SEED       (1)
#   BPE        subword-nmt, sentencepiece or none, joint over both languages (subword-nmt)
#   BPE_SIZE   merges, or pieces of sentencepiece (32000)
#   UPDATES    length of the training; the learning rate is halved at 9/12, 10/12 and 11/12 of it (12000)
#   CUT        training sentences are cut to this number of tokens on both sides, 0: never (50)
#   SPLIT      the split of generate and score, test or valid (test)
#   DEVICE     auto, cpu or cuda (auto: CUDA if torch sees a device)
#   JOBS       processes for the preparation (all cores)
#   GENERATE_OPTIONS more options for fairseq-generate
#   DRY_RUN    1: show the commands and run none (0)
#   CORPUS_URL, NEWS_URL, SETIMES_URL  mirrors of the folders of Europarl, of the WMT'16 news sets, and of SETIMES2
#
# Hyper-parameters: those of the attention-density-matrix paper (plain SGD, dropout 0.2, joint BPE with one dictionary,
# beam 10, outputs of at most 50 tokens, softmax(W [s; c] + b)). The paper refers to the TensorFlow seq2seq tutorial,
# which gives the others: 12,000 updates of 128 sentences (4 epochs), learning rate 1 on the loss per sentence, halved
# as above ("luong234"), clipping at 5. Text: Moses-tokenised, case and diacritics kept.
# Scores: BLEU of the tokenised text (sacreBLEU, --tokenize none), as in the paper, and of the detokenised text against
# the original references. Finished stages do not run again; an interrupted training continues.
exec bash "$(dirname "${BASH_SOURCE[0]}")/_run.sh" wmt16_en_ro "$@"
