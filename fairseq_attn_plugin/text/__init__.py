"""Text and its vocabularies: subwords, lexicons, word vectors, documents."""
