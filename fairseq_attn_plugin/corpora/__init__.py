"""Published corpora as text for fairseq-preprocess: ``fairseq-attn prepare NAME``, and ``fairseq-attn recipe NAME``.

``catalogue`` has the corpora, ``parallel`` and ``documents`` their text.
"""
