"""Translates text with a model that ``fairseq-attn export`` wrote. Needs numpy and onnxruntime, not torch or fairseq;
subword-nmt, SentencePiece or sacremoses only for a model that was exported with them.

    python FOLDER/translate.py < input > output
    python FOLDER/translate.py --alignments < input       # translation, tab, pairs of word numbers: source-target
"""

import argparse
import functools
import io
import os
import sys
import unicodedata

import numpy as np

try:
    from . import exported_folder as folders
except ImportError:  # in an exported folder
    import exported_folder as folders  # type: ignore[no-redef]

BOS, PAD, EOS, UNK = range(4)
BPE_MARK, PIECE_MARK, BEGINNING = "@@", "\u2581", "<s>"
CONTROL = {"Cc", "Cs", "Zl", "Zp"}  # categories of Unicode
DAMAGED = "no translation has a finite probability; the model's parameters are damaged, or its training has diverged"
MOST_CHARACTERS = 5000  # of a line: tokenisers are slow on texts that are too long for any model


def one_line(text):
    """A text with blanks for line ends and other control characters; joiners and soft hyphens stay (Unicode's Cf)."""
    return " ".join("".join(" " if unicodedata.category(letter) in CONTROL else letter for letter in text).split())


class TooLong(ValueError):
    """A line that the model cannot read."""


class Hypothesis:
    """A translation.

    Attributes:
        text, score: words, detokenised if there is a tokeniser; log probability by length ** lenpen
        source, target: tokens that the model read and wrote, without the end; source_words, target_words: their words
        scores: log probability of every target token and the end
        attention: ``[target + 1, source + 1]``, the ends included; None for a model without attention
    """

    def __init__(self, score, source, target, scores, attention, marks, detokenize=str):
        self.score, self.source, self.target, self.scores, self.attention = score, source, target, scores, attention
        self.source_words, self._source_word = spell(source, marks)
        self.target_words, self._target_word = spell(target, marks)
        # as fairseq prints it: a model that has hardly learnt may write the symbol of the beginning
        self.text = detokenize(" ".join(spell([token for token in target if token != BEGINNING], marks)[0]))

    def word_attention(self):
        """``[target words, source words]``: rows of the subwords of a word averaged, columns added."""
        result = np.zeros((len(self.target_words), len(self.source_words)))
        if self.attention is None:
            raise ValueError("the model has no attention: its translations have no alignments")
        for row, place in enumerate(self._target_word):
            np.add.at(result[place], self._source_word, self.attention[row, :-1] / self._target_word.count(place))
        return result

    def alignment(self):
        """(source, target) of each target word that has weights, and the source word with the greatest one."""
        return [(int(weights.argmax()), word) for word, weights in enumerate(self.word_attention()) if weights.any()]


def spell(tokens, marks):
    """The words that subwords spell, and the word of each subword; ``marks`` is bpe, sentencepiece or none."""
    words, places, opens = [], [], True
    for token in tokens:
        opens |= marks == "none" or (marks == "sentencepiece" and token.startswith(PIECE_MARK))
        words += [""] * opens
        continued = marks == "bpe" and token.endswith(BPE_MARK)
        words[-1] += token[: -len(BPE_MARK)] if continued else token
        places.append(len(words) - 1)
        opens = marks == "bpe" and not continued
    return ([word.replace(PIECE_MARK, "") for word in words] if marks == "sentencepiece" else words), places


class Translator:
    """An exported model as a function from lines of text to translations. ``beam`` and ``lenpen`` are those of the
    folder if they are None; ``threads`` are for each operation, 0: as many as there are cores."""

    def __init__(self, folder, beam=None, lenpen=None, threads=0):
        settings, files = folders.open_folder(folder)
        self.settings = settings
        self.beam = settings["beam"] if beam is None else beam
        self.lenpen = settings["lenpen"] if lenpen is None else lenpen
        folders.check({"--beam": self.beam, "--lenpen": self.lenpen, "--threads": threads}, folders.OPTIONS)
        self.encoder, self.step = folders.open_graphs(folder, settings, files, threads)
        self.outputs = [one.name for one in self.step.get_outputs() if one.name != "log_probs"]
        self.symbols = [folders.lines_of(files[side]) for side in ("source.txt", "target.txt")]
        self.numbers = {symbol: number for number, symbol in enumerate(self.symbols[0])}
        self._tokenize, self.detokenize = self._tokenizer(settings["tokenizer"])
        self._split = self._splitter(settings["bpe"], files)

    def translate(self, lines, **options):
        """The translation of every line; of an empty one, an empty one. Options are those of :meth:`search`."""
        return [found[0].text if found else "" for found in self.search(lines, **options)]

    def search(self, lines, nbest=1, replace_unknown=False, batch_size=32, before=0, skip=False):
        """The ``nbest`` best hypotheses of every line, best first; none for a line without words. Raises ``TooLong``
        (with ``skip`` says so and has none for that line), ``FloatingPointError`` where no probability is finite; both
        number the lines from ``before``."""
        if isinstance(lines, str):  # its letters would be translated
            raise ValueError(f"{lines!r}: must be a list of lines")
        if batch_size < 1:
            raise ValueError(f"--batch-size {batch_size}: must be at least 1")
        tokens = []
        for number, line in enumerate(lines, before + 1):
            try:
                tokens.append(self.tokens(line))
            except TooLong as error:
                if not skip:
                    raise TooLong(f"line {number}: {error}") from None
                sys.stderr.write(f"line {number}: {error}; its translation is empty\n")
                tokens.append([])
        names = [f"line {number}" for number in range(before + 1, before + len(tokens) + 1)]
        return self.search_tokens(tokens, names, nbest, replace_unknown, batch_size)

    def search_tokens(self, tokens, names, nbest=1, replace_unknown=False, batch_size=32):
        """As :meth:`search`, of what :meth:`tokens` returned for each line; ``names`` are those of errors."""
        order = sorted((number for number, one in enumerate(tokens) if one), key=lambda number: -len(tokens[number]))
        found: list = [[] for _ in tokens]
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            for number, hypotheses in zip(batch, self._search([self.encode(tokens[number]) for number in batch])):
                if not hypotheses:
                    raise FloatingPointError(f"{names[number]}: {DAMAGED}")
                found[number] = [self._readable(tokens[number], one, replace_unknown) for one in hypotheses[:nbest]]
        return found

    def tokens(self, line):
        """The tokens of a line that the model reads. Raises ``TooLong``."""
        if len(line) > MOST_CHARACTERS:
            raise TooLong(f"the sentence is too long: {len(line)} characters, at most {MOST_CHARACTERS} are read")
        line, limit = one_line(line), self.settings["max_source_positions"] - 1
        tokens = self._split(self._tokenize(line.lower() if self.settings["lowercase"] else line))
        if len(tokens) > limit:
            raise TooLong(f"the sentence is too long: {len(tokens)} subwords, the model takes at most {limit}")
        return tokens

    def encode(self, tokens):
        """The numbers of tokens and the end; what looks like a special symbol is unknown."""
        return [max(self.numbers.get(token, UNK), UNK) for token in tokens] + [EOS]

    def _search(self, sources):
        """For each sentence its hypotheses, best first (score, words, scores, attention), as fairseq's generator."""
        lengths, rules = [len(source) for source in sources], self.settings
        beam = min(self.beam, len(self.symbols[1]) - 1)
        limits = np.array([min(int(rules["max_len_a"] * n + rules["max_len_b"]), rules["max_len"]) for n in lengths])
        padded = np.array([source + [PAD] * (max(lengths) - len(source)) for source in sources], dtype=np.int64)
        tensors = folders.run(self.encoder, {"source": padded})
        tensors["candidates"] = np.array([min(2 * beam + 2, len(self.symbols[1]))])  # two may be forbidden
        finished: list = [[] for _ in sources]
        sentences = parents = np.arange(len(sources))
        words, totals = np.full((len(sources), 1), EOS), np.zeros((len(sources), 1), dtype=np.float32)
        past = []  # of every step, for each row: word that was read, row of the step before, log p so far, weights
        for step in range(limits.max() + 1):
            tensors.update(words=words, position=np.array([step]))
            ends = limits[sentences] == step
            out = folders.run(self.step, tensors, self.outputs + ["log_probs"] * bool(ends.any()))
            past.append((words.ravel(), parents, totals.ravel(), out.get("weights")))
            log_probs, best = out["best_log_probs"].copy(), out["best_words"]
            log_probs[(best == PAD) | ((best == EOS) & (step < rules["min_len"]))] = -np.inf
            if ends.any():  # their last word is the end, probable or not
                log_probs[ends], best[ends, :, 0] = -np.inf, EOS
                log_probs[ends, :, 0] = out["log_probs"][ends, :, EOS]
            scores = (log_probs + totals[:, :, None]).reshape(len(sentences), -1)
            order = np.argsort(-scores, axis=1, kind="stable")[:, : 2 * beam]
            scores, chosen = (np.take_along_axis(x.reshape(scores.shape), order, 1) for x in (scores, best))
            rows = order // best.shape[2] + np.arange(len(sentences))[:, None] * words.shape[1]
            ended = (chosen == EOS) & np.isfinite(scores)
            for place, rank in zip(*np.nonzero(ended[:, :beam])):
                done = finished[sentences[place]]
                done += [(scores[place, rank], step, rows[place, rank])] * (len(done) < beam)
            kept = np.flatnonzero([len(finished[number]) < beam for number in sentences] & ~ends)
            if not len(kept):
                break
            active = np.argsort(ended[kept], axis=1, kind="stable")[:, :beam]  # the best that do not end
            rows, totals, words = (np.take_along_axis(x[kept], active, 1) for x in (rows, scores, chosen))
            sentences, parents = sentences[kept], rows.ravel()
            folders.follow(tensors, out, rows)
            if len(kept) < len(ends):
                tensors.update({name: x[kept] for name, x in tensors.items() if name.startswith("memory")})
        return [self._trace(done, past, length) for done, length in zip(finished, lengths)]

    def _trace(self, done, past, length):
        """The hypotheses of a sentence, read from their ends backwards."""
        found = []
        for total, step, row in done:
            words, scores, weights, score = [EOS], [], [], total / (step + 1) ** self.lenpen
            for read, parents, totals, attention in reversed(past[: step + 1]):
                scores.append(float(total - totals[row]))
                words.append(int(read[row]))
                weights.append(None if attention is None else attention.reshape(-1, attention.shape[2])[row, :length])
                total, row = totals[row], parents[row]
            attention = None if weights[0] is None else np.array(weights[::-1])
            found.append((float(score), words[-2:0:-1], scores[::-1], attention))
        return sorted(found, key=lambda one: -one[0])

    def _readable(self, source, hypothesis, replace_unknown):
        (score, words, scores, attention), marks = hypothesis, self.settings["subwords"]
        target = [self.symbols[1][word] for word in words]
        if replace_unknown and UNK in words and attention is not None:
            spelt, places = spell(source, marks)
            nearest = [places[weights.argmax()] if weights.any() else -1 for weights in attention[: len(words), :-1]]
            looks = [near if word == UNK else -1 for word, near in zip(words, nearest)]
            target = [spelt[look] if look >= 0 else token for look, token in zip(looks, target)]
            target = [PIECE_MARK * (marks == "sentencepiece" and look >= 0) + one for look, one in zip(looks, target)]
            # unknown subwords that look at one word stand for it together
            kept = [place for place, look in enumerate(looks) if look < 0 or [look] != looks[place - 1 : place]]
            rows = [*kept, len(words)]
            target, scores, attention = [target[i] for i in kept], [scores[i] for i in rows], attention[rows]
        return Hypothesis(score, source, target, scores, attention, marks, self.detokenize)

    def _tokenizer(self, settings):
        languages, normalized = self.settings["languages"], self.settings.get("normalizer")
        if not normalized and settings is None:
            return str, str
        sacremoses = folders.package("sacremoses")
        rules = sacremoses.MosesPunctNormalizer(languages[0]).normalize if normalized else str
        clean = (lambda line: rules(unicodedata.normalize("NFC", line))) if normalized else str
        if settings is None:
            return clean, str
        source, target = sacremoses.MosesTokenizer(languages[0]), sacremoses.MosesDetokenizer(languages[1])
        how = {"aggressive_dash_splits": settings["dash_splits"], "escape": settings["escape"], "return_str": True}
        return lambda line: source.tokenize(clean(line), **how), lambda text: target.detokenize(text.split())

    def _splitter(self, kind, files):
        if kind is None:
            return str.split
        if kind == "subword_nmt":
            codes, package = io.StringIO(files["bpe.codes"].decode()), folders.package("subword_nmt.apply_bpe")
            try:
                bpe = package.BPE(codes, vocab={*self.symbols[0]})
            except SystemExit:
                raise ValueError("bpe.codes: are no codes of subword-nmt; export the model again") from None
            return lambda line: bpe.segment_tokens(line.split())
        model = folders.package("sentencepiece").SentencePieceProcessor(model_proto=files["sentencepiece.model"])
        return functools.partial(model.encode, out_type=str)


def lines_that_came(size):
    """Lists of the lines of standard input, in UTF-8: of a file about ``size`` bytes, of a pipe what is there, so that
    who waits for an answer has it. A line ends at \\n alone: the output stays parallel."""
    rest, encoding = b"", "utf-8-sig"
    while came := sys.stdin.buffer.read1(size):  # type: ignore[union-attr]
        *ended, rest = (rest + came).split(b"\n")
        if ended:
            yield b"\n".join(ended).decode(encoding).split("\n")
            encoding = "utf-8"
    if rest:
        yield rest.decode(encoding).split("\n")


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Translates lines from stdin to stdout.")
    parser.add_argument("--folder", default=os.path.dirname(__file__) or ".", help="exported model (default: its own)")
    parser.add_argument("--beam", type=int, metavar="N", help="width of the search")
    parser.add_argument("--lenpen", type=float, metavar="X", help="length penalty")
    parser.add_argument("--alignments", action="store_true", help="add a tab and pairs of word numbers, source-target")
    parser.add_argument("--replace-unknown", action="store_true", help="copy source words for unknown words")
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="threads (default: all cores)")
    parser.add_argument("--batch-size", type=int, default=32, metavar="N", help="sentences at a time (default: 32)")
    args = parser.parse_args(arguments)
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    try:
        translator = Translator(args.folder, args.beam, args.lenpen, args.threads)
        before = 0
        for lines in lines_that_came(1024 * max(1, args.batch_size)):
            for found in translator.search(lines, 1, args.replace_unknown, args.batch_size, before, True):
                links = found[0].alignment() if found and args.alignments else []
                shown = (found[0].text if found else "") + "\t" * args.alignments
                print(shown + " ".join("%d-%d" % pair for pair in links))
            sys.stdout.flush()
            before += len(lines)
    except Exception as error:  # those of onnxruntime have no common class
        known = str(error) if isinstance(error, (OSError, ValueError, ImportError, ArithmeticError)) else ""
        sys.exit(f"translate.py: error: {known or f'{args.folder} is damaged: {error!r}'}")


if __name__ == "__main__":
    main()
