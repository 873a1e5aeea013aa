"""Recipes of translation: prepare, train, generate, score.

Layout under OUT; different settings never share a folder::

    raw/                               downloads
    SRC-TGT.BPE/data/                  text/ (as read), segmented/, bin/ (of fairseq), done (the stamp)
                                       (SRC-TGT.TAG.BPE where a recipe has several corpora)
    SRC-TGT.BPE/ARCH.seedSEED/         checkpoints, train.log, test.hyp, test.tokenized.json, stamps
                                       (ARCH.ATTENTION.BIAS.OBJECTIVE.guided.seedSEED, with the parts that are set;
                                       top5/ holds the translations of TOPK=5)
"""
