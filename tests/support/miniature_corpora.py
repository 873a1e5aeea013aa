"""Miniatures of the corpora, in the form of the published ones."""

import gzip
import io
import json
import lzma
import random
import re
import tarfile
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Tuple

from fairseq_attn_plugin import toy_corpus

NOUNS = ["house", "river", "garden", "window", "teacher", "bicycle", "mountain", "letter", "kitchen", "bridge"]
VERBS = ["sees", "finds", "paints", "opens", "follows", "carries", "likes", "forgets"]

# options that make the models of translation tiny
TINY = ["--encoder-embed-dim", "8", "--encoder-hidden-size", "8", "--decoder-embed-dim", "8",
        "--decoder-hidden-size", "8", "--decoder-out-embed-dim", "8", "--num-workers", "0"]  # fmt: skip


def files_of(folder: Path) -> Dict[Path, int]:
    """Files below a folder with the times of their last change."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def sentences(count: int, seed: int) -> Tuple[List[str], List[str]]:
    """Distinct English sentences and a foreign side, word for word spelt backwards."""
    choices = [(a, v, b) for a in NOUNS for v in VERBS for b in NOUNS]
    random.Random(seed).shuffle(choices)
    english = [f"The {a} {v} a {b}, doesn't it?" for a, v, b in choices[:count]]
    return english, ["".join(word[::-1] for word in re.split(r"(\W+)", line)) for line in english]


def write(path: Path, lines: Sequence[str], zipped: bool = False) -> None:
    data = "".join(line + "\n" for line in lines).encode("utf-8")
    if zipped:
        path = path.with_name(path.name + ".gz")
        data = gzip.compress(data)
    path.write_bytes(data)


def sgm(kind: str, lines: Sequence[str]) -> List[str]:
    segments = [f'<seg id="{i}">{line.replace("&", "&amp;")}</seg>' for i, line in enumerate(lines, 1)]
    return [f"<{kind}>", "<doc>", *segments, "</doc>", f"</{kind}>"]


def multi30k(folder: Path, train: int = 120, zipped: bool = True) -> None:
    for seed, (name, count) in enumerate([("train", train), ("val", 12), ("test_2016_flickr", 12)]):
        for language, lines in zip(("en", "de"), sentences(count, seed)):
            write(folder / f"{name}.{language}", lines, zipped)


def wmt16_en_ro(folder: Path) -> None:
    for language, lines in zip(("en", "ro"), sentences(120, 0)):
        write(folder / f"europarl-v7.ro-en.{language}", [*lines, ""])  # Europarl has empty lines
    for seed, name in enumerate(["newsdev2016-roen", "newstest2016-roen"], 1):
        english, foreign = sentences(12, seed)
        write(folder / f"{name}-ref.en.sgm", sgm("refset", english))
        write(folder / f"{name}-src.ro.sgm", sgm("srcset", foreign))


def tatoeba(folder: Path) -> None:
    english, foreign = sentences(300, 0)
    # a second translation of every sentence, a second wording of every tenth, and the attribution
    lines = [pair for a, b in zip(english, foreign) for pair in ((a, b), (a, b + " ja"))]
    lines += [(a.replace(",", " ;"), b + " !") for a, b in zip(english[::10], foreign[::10])]
    write(folder / "spa.txt", ["\t".join((*pair, "CC-BY 2.0")) for pair in lines], zipped=True)


def iwslt14_de_en(folder: Path, train: int = 120) -> None:
    """The archive: tags between the talks of the training text, XML for the sets that make up the test set."""
    sets = ["TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"]
    for language, lines in zip(("en", "de"), sentences(train, 0)):
        talk = [f"<url>http://talks/{language}</url>", f"<keywords>talks, {language}</keywords>", "<talkid>1</talkid>"]
        talk += [f"<title>{lines[0]}</title>", f"<description>{lines[1]}</description>", *lines[2:]]
        write(folder / f"train.tags.de-en.{language}", talk)
    for seed, name in enumerate(sets, 1):
        for language, kind, lines in zip(("en", "de"), ("refset", "srcset"), sentences(3, seed)):
            body = sgm(kind, [f" {line} " for line in lines])
            xml = ['<?xml version="1.0" encoding="UTF-8"?>', "<mteval>", *body, "</mteval>"]
            write(folder / f"IWSLT14.{name}.de-en.{language}.xml", xml)


def toy(folder: Path) -> None:
    toy_corpus.write(toy_corpus.generate(1, {"train": 60, "valid": 8, "test": 8}), folder)


def reviews(per_fold: int = 4) -> Iterator[Tuple[str, str, List[str]]]:
    """Reviews of all ten folds in which one word tells the label: name, label, sentences."""
    rng = random.Random(1)
    for number in range(10 * per_fold):
        for label in ("neg", "pos"):
            lines = [
                " ".join(rng.choice("the a film is so and".split()) for _ in range(rng.randint(1, 6))) + " ."
                for _ in range(rng.randint(1, 4))
            ]
            lines[rng.randrange(len(lines))] += " bad" if label == "neg" else " good"
            yield f"cv{number % 10}{number // 10:02d}_{rng.randrange(10**5):05d}", label, lines


def polarity_jsonl(folder: Path) -> None:
    lines = [json.dumps({"name": n, "label": label, "sentences": s}) + "\n" for n, label, s in reviews()]
    (folder / "polarity.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode()))


def polarity_archive(folder: Path) -> None:
    with tarfile.open(folder / "review_polarity.tar.gz", "w:gz") as archive:
        for name, label, lines in reviews():
            data = ("\n".join(lines) + " caf\xe9\n").encode("latin-1")
            member = tarfile.TarInfo(f"txt_sentoken/{label}/{name}.txt")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def yelp(folder: Path) -> None:
    rng = random.Random(2)
    for split, count in (("train", 40), ("dev", 10), ("test", 10)):
        lines = []
        for number in range(count):
            text = " <sssss> ".join(
                " ".join(rng.choices("good bad food".split(), k=3)) for _ in range(rng.randint(1, 3))
            )
            lines.append(f"user{number}\t\tplace\t\t{1 + number % 5}\t\t{text}\n")
        (folder / f"yelp-2013-{split}.txt.ss").write_text("".join(lines))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def lose_a_line(path: Path) -> None:
    path.write_bytes(gzip.compress(b"".join(gzip.decompress(path.read_bytes()).splitlines(True)[:-1])))


def damage(path: Path) -> None:
    path.write_bytes(gzip.compress(b"caf\xe9 is not UTF-8\n"))


def yahoo(folder: Path) -> None:
    for name, count in (("train", 60), ("test", 20)):
        texts = '"I ask.\\nTwice.","Because ""so"" it is."\n'
        rows = [f'"{1 + n // 2 % 10}","Why is it {n}?",{texts}' for n in range(count)]
        (folder / f"{name}.csv").write_text("".join(rows))


def imdb(folder: Path) -> None:
    for name, count in (("train", 40), ("val", 10), ("test", 20)):
        rows = [
            f"{label}\t{7 * (label == 'pos') + 2}\t{n}\tA {word} film.<br /><br />I say: {word}, number {n}.\n"
            for n in range(count // 2)
            for label, word in (("neg", "dull"), ("pos", "fine"))
        ]
        (folder / f"{name}.tsv.xz").write_bytes(lzma.compress("".join(rows).encode()))


def imdb_archive(folder: Path) -> None:
    """Reviews 0 to 9 of each class and part; 0 and 5 are of the validation set."""
    with tarfile.open(folder / "aclImdb_v1.tar.gz", "w:gz") as archive:
        for part in ("train", "test"):
            for label, rating, word in (("neg", 2, "dull"), ("pos", 9, "fine")):
                for n in range(10):
                    text = f"A {word} film.<br />Number {n}.".encode()
                    about = tarfile.TarInfo(f"aclImdb/{part}/{label}/{n}_{rating}.txt")
                    about.size = len(text)
                    archive.addfile(about, io.BytesIO(text))
