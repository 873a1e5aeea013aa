"""``fairseq-attn train``: from a user's own sentence pairs to a model folder.

``reading``, ``columns``
    sentence pairs from a table or from two aligned files, plain, gzipped or zipped
``splitting``
    train, valid and test, without a sentence of valid and test in train
``settings``
    what follows from the size of the corpus and its languages
``stages``, ``shell``
    the stages of a recipe of translation, with the commands that they run; the model folder
``command``
    the command line
"""
