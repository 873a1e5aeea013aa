#!/usr/bin/env bash
# IWSLT'15 English-Vietnamese, as preprocessed at Stanford: 133K pairs of TED talks, tst2012 to tune, tst2013 to test.
#
#   bash scripts/recipes/iwslt15_en_vi.sh [prepare|train|generate|score|all] [--dry-run] [-- fairseq-train options]
#
# Environment variables (default):
#   SRC, TGT   en and vi, in either order (en, vi)
#   ARCH       lstm_soft, lstm_adm, lstm_adm_aqt, or lstm: stock fairseq's in the same sizes (lstm_adm)
#   ATTENTION  --attention instead of the architecture's own: structured, sigmoid, local-m, local-p, ... (its own)
#   BIAS       --attention-bias: position, markov, fertility, or several with commas between them (none)
#   TEACHER    checkpoint of a trained model whose alignments guide the attention (none)
#   USER_DIR   folder of code that registers the attention (none)
#   OUT        folder for all files (out/iwslt15_en_vi of the checkout)
#   DATA       folder with the corpus, instead of a download from nlp.stanford.edu/projects/nmt (WIT3 terms)
#   SEED       (1)
#   BPE        subword-nmt, sentencepiece or none (none: word vocabularies, the 17,188 / 7,706 most frequent words of
#              English / Vietnamese; with <unk>, <s> and </s> they are the 17,191 / 7,709 of the paper)
#   BPE_SIZE   merges, or pieces of sentencepiece (8000)
#   UPDATES    length of the training; the learning rate is halved at 9/12, 10/12 and 11/12 of it (12000)
#   CUT        training sentences are cut to this number of tokens on both sides, 0: never (50)
#   SPLIT      the split of generate and score, test or valid (test)
#   DEVICE     auto, cpu or cuda (auto: CUDA if torch sees a device)
#   JOBS       processes for the preparation (all cores)
#   GENERATE_OPTIONS more options for fairseq-generate
#   DRY_RUN    1: show the commands and run none (0)
#   CORPUS_URL a mirror of the files
#
# Hyper-parameters: those of the attention-density-matrix paper (Adam 1e-3, dropout 0.2, beam 10, outputs of at most 50
# words, softmax(W [s; c] + b)). The paper refers to the TensorFlow seq2seq tutorial for this corpus, which gives the
# others: 12,000 updates of 128 sentences (12 epochs), the gradient of the loss per sentence clipped at 5, the rate
# halved as above ("luong234").
# Scores: BLEU of the tokenised text (sacreBLEU, --tokenize none), as in the paper. The corpus has no untokenised
# references. Finished stages do not run again; an interrupted training continues.
exec bash "$(dirname "${BASH_SOURCE[0]}")/_run.sh" iwslt15_en_vi "$@"
