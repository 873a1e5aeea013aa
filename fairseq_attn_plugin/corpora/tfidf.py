"""A baseline for document classification: TF-IDF and a linear classifier.

    python -m fairseq_attn_plugin.corpora.tfidf data/text --out test.json

Features are words, or words and bigrams, whichever is better on the validation set, with sublinear TF-IDF of those in
at least three documents. The classifier is L2-regularised logistic regression, or a linear support vector machine. Its
strength is chosen on the validation set. It is trained on the training set alone, like the networks.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from fairseq_attn_plugin.errors import install_hook
from fairseq_attn_plugin.writing import whole_text

from .files import CorpusError, read_text, split_lines

__all__ = ["evaluate", "main"]

LOGISTIC = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)  # strengths C; less is more regularised
SVM = (0.03, 0.1, 0.3, 1.0, 3.0)
NGRAMS = ((1, 1), (1, 2))


def evaluate(folder: Path, classifier: str = "logistic") -> Dict[str, Any]:
    """Scores of the best model on the test set, in percent, with its strength, its n-grams and the time in seconds.

    Args:
        folder: with ``{train,valid,test}.{input0,label}``
        classifier: logistic or svm

    Raises:
        CorpusError: the text is damaged
        ImportError: scikit-learn is not installed
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import accuracy_score, f1_score
    from sklearn.svm import LinearSVC

    texts: Dict[str, List[str]] = {}
    labels: Dict[str, List[str]] = {}
    for split in ("train", "valid", "test"):
        texts[split] = split_lines(read_text(folder / f"{split}.input0"))
        labels[split] = split_lines(read_text(folder / f"{split}.label"))
        counts = len(texts[split]), len(labels[split])
        if counts[0] != counts[1] or not counts[0]:
            raise CorpusError(f"{folder}/{split}: {counts[0]} documents and {counts[1]} labels: prepare them again")
    start = time.perf_counter()
    best: Dict[str, Any] = {}
    for ngrams in NGRAMS:
        vectors = TfidfVectorizer(
            tokenizer=_words, token_pattern=None, lowercase=False, ngram_range=ngrams, min_df=3, sublinear_tf=True
        )
        train = vectors.fit_transform(texts["train"])
        valid, test = vectors.transform(texts["valid"]), vectors.transform(texts["test"])
        for strength in LOGISTIC if classifier == "logistic" else SVM:
            model = LinearSVC(C=strength) if classifier == "svm" else LogisticRegression(C=strength, max_iter=2000)
            model.fit(train, labels["train"])
            accuracy = accuracy_score(labels["valid"], model.predict(valid))
            if not best or accuracy > best["valid_accuracy"] / 100:
                predicted = model.predict(test)
                best = {
                    "documents": len(predicted),
                    "accuracy": round(100 * accuracy_score(labels["test"], predicted), 4),
                    "macro_f1": round(100 * f1_score(labels["test"], predicted, average="macro"), 4),
                    "valid_accuracy": 100 * accuracy,
                    "C": strength,
                    "ngrams": list(ngrams),
                    "features": train.shape[1],
                }
    return {**best, "seconds": round(time.perf_counter() - start, 1)}


def _words(text: str) -> List[str]:
    return [word for word in text.split() if word != "</s>"]


def main(words: Optional[Sequence[str]] = None) -> None:
    """Writes the scores as JSON and prints them in a line."""
    install_hook()
    parser = argparse.ArgumentParser(prog="python -m fairseq_attn_plugin.corpora.tfidf", description=__doc__)
    parser.add_argument("text", type=Path, help="folder with {train,valid,test}.{input0,label}")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON file to write")
    parser.add_argument("--classifier", choices=("logistic", "svm"), default="logistic", help="(default: logistic)")
    args = parser.parse_args(words)
    try:
        result = evaluate(args.text, args.classifier)
    except ImportError:
        raise CorpusError("the baseline needs scikit-learn: pip install 'fairseq_attn_plugin[analysis]'") from None
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with whole_text(args.out, f"--out {args.out}: cannot be written") as stream:
        stream.write(json.dumps(result, indent=1) + "\n")
    about = (
        "accuracy {accuracy:.2f}, macro-F1 {macro_f1:.2f} (C = {C:g}, n-grams up to {ngrams[1]}, {features:,} features)"
    )
    print(about.format(**result), flush=True)


if __name__ == "__main__":
    main()
