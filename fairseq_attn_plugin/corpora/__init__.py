"""Published corpora as text for fairseq-preprocess: ``fairseq-attn prepare NAME``.

``catalogue``
    the corpora: their files, their sizes, their text
``downloads``
    downloads with checksums, and archives
``files``, ``parallel``, ``tokens``, ``subwords``
    reading and checking files of sentence pairs, tokenisation, subword models
``imdb``, ``iwslt14``, ``pair_splits``, ``polarity``, ``yelp2013``, ``yahoo_answers``
    readers of single corpora
``tools``, ``locks``
    commands of this environment, and folders that several processes share
``tfidf``
    the baseline of document classification
``command``
    the command line
"""
