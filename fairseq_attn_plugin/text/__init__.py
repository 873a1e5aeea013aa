"""Text: subwords, vocabularies, lexicons, word vectors, documents."""
