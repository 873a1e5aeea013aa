"""``fairseq-attn train``: from a user's own sentence pairs to a model folder.

``reading``, ``columns``
    sentence pairs from a table or from two aligned files, plain, gzipped or zipped
``splitting``
    train, valid and test, without a sentence of valid and test in train
``settings``
    what follows from the size of the corpus and its languages; checks of the model
``stages``, ``shell``, ``progress``, ``stamps``
    preparation, training, translation, the model folder; the commands that run, shown; what is finished
``card``
    the card of a model, as a Hugging Face Hub reads it
``command``
    the command line
"""
