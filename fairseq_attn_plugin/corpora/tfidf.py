"""A baseline for document classification: TF-IDF and a linear classifier.

    python -m fairseq_attn_plugin.corpora.tfidf data/text --out test.json

Features are words, or words and bigrams, whichever is better on the validation set, with sublinear TF-IDF of those in
at least three documents. The classifier is L2-regularised logistic regression, or a linear support vector machine. Its
strength is chosen on the validation set. It is trained on the training set alone, like the networks.
"""

import argparse
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from fairseq_attn_plugin.errors import OptionError, install_hook
from fairseq_attn_plugin.writing import check_output, make_folder, write_json

from .files import read_text, split_lines

LOGISTIC = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)  # strengths C; less is more regularised
SVM = (0.03, 0.1, 0.3, 1.0, 3.0)


def evaluate(folder: Path, classifier: str = "logistic") -> Dict[str, Any]:
    """Scores of the best model on the test set, in percent, with its strength, its n-grams and the time in seconds.

    The folder has ``{train,valid,test}.{input0,label}``; the classifier is logistic or svm.

    Raises:
        OptionError: the text is damaged
        ImportError: scikit-learn is not installed
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import accuracy_score, f1_score
    from sklearn.svm import LinearSVC

    def documents(split: str) -> List[List[str]]:
        texts, labels = (split_lines(read_text(folder / f"{split}.{side}")) for side in ("input0", "label"))
        if len(texts) != len(labels) or not texts:
            raise OptionError(f"{folder}/{split}: {len(texts)} documents and {len(labels)} labels: prepare them again")
        return [texts, labels]

    (texts, labels), valid, test = documents("train"), documents("valid"), documents("test")
    start = time.perf_counter()
    best: Dict[str, Any] = {"valid_accuracy": -1.0}
    for longest in (1, 2):
        vectors = TfidfVectorizer(
            tokenizer=_words, token_pattern=None, lowercase=False, ngram_range=(1, longest), min_df=3, sublinear_tf=True
        )
        train, held, unseen = vectors.fit_transform(texts), vectors.transform(valid[0]), vectors.transform(test[0])
        for strength in LOGISTIC if classifier == "logistic" else SVM:
            model = LinearSVC(C=strength) if classifier == "svm" else LogisticRegression(C=strength, max_iter=2000)
            model.fit(train, labels)
            accuracy = 100 * accuracy_score(valid[1], model.predict(held))
            if accuracy > best["valid_accuracy"]:
                predicted = model.predict(unseen)
                best = {
                    "documents": len(predicted),
                    "accuracy": round(100 * accuracy_score(test[1], predicted), 4),
                    "macro_f1": round(100 * f1_score(test[1], predicted, average="macro"), 4),
                    "valid_accuracy": accuracy,
                    "C": strength,
                    "ngrams": [1, longest],
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
    make_folder("--out", args.out.parent)
    check_output("--out", args.out, args.text.glob("*"))
    try:
        result = evaluate(args.text, args.classifier)
    except ImportError:
        raise OptionError("the baseline needs scikit-learn: pip install 'fairseq_attn_plugin[analysis]'") from None
    except OptionError:
        raise
    except ValueError as error:  # of a few documents, or of one class
        raise OptionError(f"{args.text}: cannot be classified: {error}") from None
    write_json("--out", args.out, result)
    about = (
        "accuracy {accuracy:.2f}, macro-F1 {macro_f1:.2f} (C = {C:g}, n-grams up to {ngrams[1]}, {features:,} features)"
    )
    print(about.format(**result), flush=True)


if __name__ == "__main__":
    main()
