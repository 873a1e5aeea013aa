"""``fairseq-attn prepare``: a published corpus as text files for fairseq-preprocess.

    fairseq-attn prepare multi30k --out data --subword-size 8000
    fairseq-attn prepare polarity_han --out data --fold 0 --data folder

Downloads the corpus into ``downloads/NAME`` beside FOLDER, or below the folder of ``--downloads``, or reads it from
``--data``. Writes FOLDER, complete or not at all::

    text/SPLIT.LANGUAGE        train, valid, test: tokenised text; documents are SPLIT.input0 and SPLIT.label
    text/SPLIT.raw.LANGUAGE    the published text of valid and test, where it is not tokenised
    segmented/SPLIT.LANGUAGE   the text in subwords, for fairseq-preprocess
    codes, vocab.LANGUAGE      of subword-nmt; spm.model of SentencePiece
    prepared.json              the options, and the checksums of the downloads

A second call with the same options does nothing. One with other options is refused.
"""

import argparse
import functools
import os
from pathlib import Path
from typing import Any, Dict

from fairseq_attn_plugin.corpora.catalogue import CORPORA, READERS, Corpus, Job, language_of
from fairseq_attn_plugin.corpora.downloads import checksum, fetch, unpack
from fairseq_attn_plugin.corpora.parallel import shorten
from fairseq_attn_plugin.corpora.subwords import KINDS, segment
from fairseq_attn_plugin.corpora.tools import locked, run_quietly, stamp_of, whole_folder
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import at_least, flag
from fairseq_attn_plugin.writing import make_folder

OF_TRANSLATION = {"subwords": "subword-nmt", "subword_size": 8000, "cut": 0, "longest": 0}
SPECIAL = {name for corpus in CORPORA.values() for name in corpus.options}


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("corpus", choices=sorted(CORPORA), metavar="NAME", help=", ".join(CORPORA))
    add("--out", type=Path, required=True, metavar="FOLDER", help="folder to write")
    add("--data", type=Path, metavar="FOLDER", help="read the corpus from this folder instead of downloading it")
    where = "folder of downloads, with a folder for each corpus (default: downloads, beside --out)"
    add("--downloads", type=Path, metavar="FOLDER", help=where)
    add("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="number of processes (default: all cores)")
    add = parser.add_argument_group("sentence pairs").add_argument
    add("--subwords", choices=KINDS, help="joint over both languages (default: subword-nmt)")
    add("--subword-size", type=int, metavar="N", help="merges or SentencePiece pieces (default: 8000)")
    add("--cut", type=int, metavar="N", help="cut training sentences to N tokens; 0: never (default: 0)")
    add("--longest", type=int, metavar="N", help="drop training pairs of more than N tokens; 0: none (default: 0)")
    add = parser.add_argument_group("single corpora").add_argument
    add("--pair", metavar="NAME", help="of tatoeba: name at manythings.org/anki (default: spa-eng)")
    add("--language", metavar="CODE", help="of tatoeba: language beside English (default: the pair's)")
    equal = "of tatoeba_election: pairs with as many words on both sides, without punctuation"
    add("--equal-words", action="store_true", default=None, help=equal)
    add("--setimes", action="store_true", default=None, help="of wmt16_en_ro: Europarl and SETIMES2")
    add("--fold", type=int, metavar="K", help="of polarity_han: test fold, 0 to 9 (default: 0)")
    add("--seed", type=int, metavar="N", help="of toy_corpus: of its words and sentences (default: 1)")


def run(args: argparse.Namespace) -> None:
    corpus = CORPORA[args.corpus]
    chosen = _check(args, corpus)
    out = Path(os.path.abspath(args.out))
    if _is_done(args, out, chosen):
        return
    make_folder("--out", out.parent)
    with locked(out.parent / f"{out.name}.lock"):  # trainings with other seeds may begin at the same time
        if not _is_done(args, out, chosen):
            _prepare(args, corpus, out, chosen)


def _check(args: argparse.Namespace, corpus: Corpus) -> Dict[str, Any]:
    """Gives the options their defaults, and returns those that determine the text."""
    if args.subword_size is not None and args.subwords == "none":
        raise OptionError(f"--subword-size {args.subword_size}: has no effect with --subwords none; leave it out")
    taken = {**corpus.options, **(OF_TRANSLATION if corpus.languages else {})}
    for name in {**OF_TRANSLATION, **dict.fromkeys(SPECIAL)}:
        if getattr(args, name) is None:
            setattr(args, name, taken.get(name))
        elif name not in taken:
            raise OptionError(f"{flag(name)}: is not an option of {args.corpus}; leave it out")
    at_least(args, jobs=1, subword_size=0, cut=0, longest=0, fold=0, seed=0)
    if (args.fold or 0) > 9:
        raise OptionError(f"--fold {args.fold}: must be 0 to 9")
    if args.data is not None and not args.data.is_dir():
        raise OptionError(f"--data {args.data}: is not a folder; must be one with {corpus.expected}")
    if args.corpus == "tatoeba":
        args.language = language_of(args.pair, args.language)
    return {"corpus": args.corpus, **{name: getattr(args, name) for name in taken}}


def _is_done(args: argparse.Namespace, out: Path, chosen: Dict[str, Any]) -> bool:
    """Whether the folder has this text; raises ``OptionError`` if it has something else."""
    before = stamp_of(out)
    if not before:
        return False
    remedy = "name another folder, or remove that one"
    for name, value in chosen.items():
        if before.get(name) != value:
            raise OptionError(f"--out {args.out}: was prepared with {name} {before.get(name)}, not {value}; {remedy}")
    # without --data the prepared text is used, wherever it came from
    if args.data is not None and before["data"] != os.path.abspath(args.data):
        was = before["data"] or "downloads"
        raise OptionError(f"--out {args.out}: was prepared from {was}, not from --data {args.data}; {remedy}")
    print(f"{args.out}: prepared before", flush=True)
    return True


def _prepare(args: argparse.Namespace, corpus: Corpus, out: Path, chosen: Dict[str, Any]) -> None:
    folder, known = args.data, {}
    if folder is None:
        folder = Path(os.path.abspath(args.downloads or out.parent / "downloads")) / args.corpus
        for download in corpus.files(args):
            path = fetch(download, folder, corpus.expected)
            unpack(path, folder, download.members)
            known[download.name] = checksum(path)
    languages = ("en", args.language) if args.corpus == "tatoeba" else corpus.languages
    print(f"{args.out}: reading and tokenising {args.corpus}", flush=True)
    stamp = {**chosen, "data": os.path.abspath(args.data) if args.data else None, "sha256": known}
    with whole_folder(out, stamp) as partial:
        job = Job(corpus, args, folder, partial, languages)
        READERS.get(args.corpus, lambda job: job.splits(corpus.splits))(job)
        if languages:
            log = out.with_name(f"{out.name}.subwords.log")
            if args.subwords != "none":
                print(f"{args.out}: learning and applying subwords ({args.subwords}; log: {log})", flush=True)
            shell = functools.partial(run_quietly, log)
            segment(partial, languages, args.subwords, args.subword_size, shell, args.jobs)
            if args.cut or args.longest:
                shorten(partial / "segmented" / "train", languages, args.cut, args.longest)
    print(f"{args.out}: prepared", flush=True)
