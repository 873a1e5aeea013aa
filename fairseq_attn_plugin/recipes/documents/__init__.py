"""Recipes of document classification: prepare, train, evaluate, baseline, table.

Layout under OUT::

    raw/                        downloads
    PART/data/                  text/, bin/input0, bin/label (of fairseq), done (the stamp)
    PART/MODEL.seedSEED/        checkpoints, train.log, test.json (scores), test.jsonl (classes and weights), stamps
    PART/tfidf.test.json        the baseline
    table.md, table.json        all systems over all parts

A part is a fold, or the whole corpus.
"""
