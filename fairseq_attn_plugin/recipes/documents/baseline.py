"""A baseline for document classification: TF-IDF and logistic regression.

Features are words, or words and bigrams, whichever is better on the validation set, with sublinear TF-IDF of those in
at least three documents. The classifier is L2-regularised logistic regression. Its strength is chosen on the validation
set. It is trained on the training set alone, like the networks.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Dict, List, Tuple

from fairseq_attn_plugin.corpora.files import read_text, split_lines

from ..errors import CorpusError
from ..tables import write_json

__all__ = ["evaluate", "write_baseline"]

STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
NGRAMS = ((1, 1), (1, 2))


def read_split(folder: Path, split: str) -> Tuple[List[str], List[str]]:
    """Texts and labels.

    Raises:
        CorpusError: their numbers differ, or there are none
    """
    texts, labels = (split_lines(read_text(folder / f"{split}.{side}")) for side in ("input0", "label"))
    if len(texts) != len(labels) or not texts:
        raise CorpusError(f"{folder}/{split}: {len(texts)} documents and {len(labels)} labels: prepare them again")
    return texts, labels


def words(text: str) -> List[str]:
    return [word for word in text.split() if word != "</s>"]


def evaluate(folder: Path, split: str) -> Dict[str, Any]:
    """Scores of the best model on ``split``, in percent, with its strength, its n-grams and the time in seconds.

    Args:
        folder: with ``{train,valid,test}.{input0,label}``
        split: that is scored

    Raises:
        CorpusError: the text is damaged
        ImportError: scikit-learn is not installed
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import accuracy_score, f1_score

    texts, labels = read_split(folder, "train")
    valid_texts, valid_labels = read_split(folder, "valid")
    test_texts, test_labels = read_split(folder, split)
    start = time.perf_counter()
    best: Dict[str, Any] = {}
    for ngrams in NGRAMS:
        vectors = TfidfVectorizer(
            tokenizer=words, token_pattern=None, lowercase=False, ngram_range=ngrams, min_df=3, sublinear_tf=True
        )
        train = vectors.fit_transform(texts)
        valid, test = vectors.transform(valid_texts), vectors.transform(test_texts)
        for strength in STRENGTHS:
            model = LogisticRegression(C=strength, max_iter=2000).fit(train, labels)
            accuracy = accuracy_score(valid_labels, model.predict(valid))
            if not best or accuracy > best["valid_accuracy"] / 100:
                predicted = model.predict(test)
                best = {
                    "documents": len(test_labels),
                    "accuracy": round(100 * accuracy_score(test_labels, predicted), 4),
                    "macro_f1": round(100 * f1_score(test_labels, predicted, average="macro"), 4),
                    "valid_accuracy": 100 * accuracy,
                    "C": strength,
                    "ngrams": list(ngrams),
                    "features": train.shape[1],
                }
    return {**best, "seconds": round(time.perf_counter() - start, 1)}


def write_baseline(folder: Path, split: str, to: Path) -> None:
    """Writes the scores as JSON and prints them in a line."""
    try:
        result = evaluate(folder, split)
    except ImportError:
        raise CorpusError("the baseline needs scikit-learn: pip install 'fairseq_attn_plugin[analysis]'") from None
    write_json(to, result)
    print(
        "accuracy {accuracy:.2f}, macro-F1 {macro_f1:.2f} (C = {C:g}, n-grams up to {ngrams[1]}, {features:,} "
        "features)".format(**result),
        flush=True,
    )
