"""The prepare stage of translation: corpus, subwords, and the binarised data of fairseq."""

from __future__ import annotations

from pathlib import Path

from fairseq_attn_plugin.corpora.parallel import cut_split, drop_split

from ..data_folder import Preparation
from .reading import CorpusReader
from .recipe import Experiment
from .segmentation import segment

__all__ = ["prepare"]


def prepare(experiment: Experiment) -> None:
    """Makes the data folder, unless it is there with the same settings.

    Raises:
        OptionError: the folder has other settings, or a tool failed
        CorpusError: the corpus is missing or damaged
    """
    corpus, settings, shell = experiment.corpus, experiment.settings, experiment.shell
    direction = f"{settings.source}-{settings.target}"
    stamp = f"recipe {corpus.name} {direction} {settings.bpe_tag} cut {settings.cut} {corpus.stamp}"
    if settings.longest:
        stamp += f" longest {settings.longest}"

    def build(preparation: Preparation) -> None:
        origin = f", from {preparation.corpus}" if corpus.at_home else ""
        shell.say(f"prepare: {direction}, BPE={settings.bpe}{origin}")
        _build(experiment, CorpusReader(**vars(preparation), languages=corpus.languages))

    if experiment.data.prepare(stamp, ("text", "segmented"), build) and not shell.dry_run:
        sizes = [
            f"{_lines(experiment.data_bin / f'dict.{language}.txt')} {language}" for language in direction.split("-")
        ]
        shell.say(f"prepare: {sizes[0]} and {sizes[1]} types in {experiment.data.path}")


def _build(experiment: Experiment, reader: CorpusReader) -> None:
    corpus, settings, shell = experiment.corpus, experiment.settings, experiment.shell
    segmented = reader.partial / "segmented"
    corpus.read(reader)
    segment(reader, settings, experiment.work / "bpe.log")
    train = segmented / "train"
    if settings.cut:
        description = f"cut the sentences of {train} to {settings.cut} tokens"
        shell.step(description, cut_split, train, corpus.languages, settings.cut)
    if settings.longest:
        description = f"drop the pairs of {train} with more than {settings.longest} tokens on a side"
        shell.step(description, drop_split, train, corpus.languages, settings.longest)
    shell.run_quietly(
        experiment.work / "preprocess.log",
        *("fairseq-preprocess", *experiment.language_options, "--trainpref", train),
        *("--validpref", segmented / "valid", "--testpref", segmented / "test", "--destdir", reader.partial / "bin"),
        *("--workers", settings.jobs, *corpus.preprocess),
    )


def _lines(path: Path) -> int:
    with open(path, "rb") as stream:
        return sum(1 for _ in stream)
