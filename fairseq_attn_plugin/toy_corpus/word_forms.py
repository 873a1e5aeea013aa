"""Word forms of the two invented languages of :mod:`.generation`.

Velarin (``vr``, the source) has open syllables and the letters *š ž ä*. Dormeth (``dm``, the target) has closed
syllables, consonant clusters and the letters *þ y w*. The closed classes and the endings are fixed, so that the two
grammars are the same for every seed. The stems of the open classes are drawn from the seed.
"""

import random
from typing import Callable, NamedTuple, Sequence, TypeVar

Item = TypeVar("Item")

# Velarin, closed class
ARTICLES = {"sg": "le", "pl": "len"}
FUTURE, NEGATION, RELATIVE = "sul", "ni", "dar"
NEGATION_TARGET = "nokh"
PARTICLES = ("op", "ur", "enta", "mis")
PRONOUNS = {"sg1": "mä", "pl1": "män", "sg3": "so", "pl3": "son"}
# Velarin word -> Dormeth counterpart
POSSESSIVES = {"mio": "im", "nora": "or", "tua": "eth"}  # an ending of the noun in Dormeth
DEMONSTRATIVES = {"ista": "tor", "ola": "ghen"}  # follows the noun and agrees with it
NUMERALS = {"dua": "twin", "terša": "threk"}  # follows the noun, invariable
PREPOSITIONS = {"an": "ust", "supa": "wern", "kon": "mid", "pero": "folk", "desa": "fram", "tra": "þurk"}
CONJUNCTIONS = {"e": "and", "mai": "akh"}
BECAUSE, BECAUSE_TARGET = "kara", "sint"
# Dormeth, closed class: these two words have no counterpart in Velarin
OBJECT_MARKER, QUESTION_MARKER = "ad", "wek"

# Dormeth endings
_FORMS = [(gender, number) for gender in ("common", "neuter") for number in ("sg", "pl")]
NOUN_ENDINGS = dict(zip(_FORMS, ("a", "ai", "on", "ora")))
ADJECTIVE_ENDINGS = dict(zip(_FORMS, ("sha", "shai", "dun", "dora")))
PERSON_ENDINGS = {"sg1": "em", "pl1": "emar", "sg3": "ek", "pl3": "ekar"}
PAST_AUXILIARY = {person: "h" + ending for person, ending in PERSON_ENDINGS.items()}
FUTURE_ENDING, PARTICIPLE_ENDING, RELATIVE_ENDING = "is", "ulþ", "ind"

# names change their spelling letter by letter
TRANSLITERATION = {"š": "sh", "ž": "j", "ä": "e", "k": "c", "v": "w", "Š": "Sh", "Ž": "J", "K": "C", "V": "W"}
_NAME_SYLLABLES = str.split(
    "ka ve lo ri ša mo ten da žo li nar ve šil bo kä tu ren vi ga sol mä pe dor ni ža kor lu ban ze tä"
)


class Noun(NamedTuple):
    source: str
    modifier: str  # first word of a Dormeth compound, or ""
    target: str  # stem
    gender: str
    animate: bool


class Verb(NamedTuple):
    source: str
    particle: str  # follows the object in Velarin, or ""
    target: str  # stem


class Word(NamedTuple):
    source: str
    target: str


def pick(rng: random.Random, items: Sequence[Item]) -> Item:
    """Draws one item with ``random()``, the only method whose sequence Python guarantees for a seed."""
    return items[int(rng.random() * len(items))]


def source_plural(stem: str) -> str:
    return stem + ("n" if stem[-1] in "aeiouä" else "en")


def source_past(stem: str) -> str:
    return stem + ("ta" if stem[-1] in "aeiouä" else "ata")


def transliterate(name: str) -> str:
    """The Dormeth spelling of a Velarin name."""
    return "".join(TRANSLITERATION.get(letter, letter) for letter in name)


def pick_several(rng: random.Random, items: Sequence[Item], count: int) -> list[Item]:
    """Draws ``count`` different items, in random order."""
    pool = list(items)
    return [pool.pop(int(rng.random() * len(pool))) for _ in range(count)]


def draw_name(rng: random.Random) -> str:
    """Draws a Velarin name of two to four syllables. Most names occur only once in a corpus."""
    count = 2 + (rng.random() < 0.6) + (rng.random() < 0.15)
    return "".join(pick(rng, _NAME_SYLLABLES) for _ in range(count)).capitalize()


def _source_stem(rng: random.Random) -> str:
    onsets = str.split("b d f g k l m n p r s š t v z ž br tr pl st")
    syllables = 2 + (rng.random() < 0.35)
    stem = "".join(pick(rng, onsets) + pick(rng, "aaeeiioouä") for _ in range(syllables))
    return stem + pick(rng, ("", "", "", "r", "l", "s"))


def _target_stem(rng: random.Random) -> str:
    onsets = str.split("b br d dr f fl g gr h k kn m n r sk st þ w")
    codas = str.split("ld lm m n nd ng rk rm rn rþ st g þ lf")
    first = pick(rng, [*onsets, ""]) + pick(rng, "aeiouy")
    if rng.random() < 0.45:
        first += pick(rng, str.split("r l n ss gg rd nt")) + pick(rng, "aeiu")
    return first + pick(rng, codas)


class Lexicon:
    """The open classes, drawn from ``rng``. No two entries share a form, inflected or not."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        source = {FUTURE, NEGATION, RELATIVE, BECAUSE, *PARTICLES, *ARTICLES.values(), *PRONOUNS.values()}
        target = {BECAUSE_TARGET, OBJECT_MARKER, QUESTION_MARKER, NEGATION_TARGET, *PAST_AUXILIARY.values()}
        for words in (POSSESSIVES, DEMONSTRATIVES, NUMERALS, PREPOSITIONS, CONJUNCTIONS):
            source |= set(words)
            target |= set(words.values())
        target |= {stem + ending for stem in DEMONSTRATIVES.values() for ending in ADJECTIVE_ENDINGS.values()}
        self._taken = {"source": source, "target": target}
        self.nouns: list[Noun] = []
        for index in range(54):
            modifier = self._target() if index % 6 == 0 else ""
            gender = "common" if index % 2 else "neuter"
            self.nouns.append(Noun(self._source(), modifier, self._target(), gender, index % 3 == 1))
        self.transitive = [Verb(self._source(), "", self._target()) for _ in range(13)]
        # four verbs always have a particle; two others change their meaning with one, so that a model must attend to
        # both words
        self.transitive += [Verb(self._source(), particle, self._target()) for particle in PARTICLES]
        for verb, particle in zip(self.transitive[:2], PARTICLES):
            self.transitive.append(Verb(verb.source, particle, self._target()))
        self.intransitive = [Verb(self._source(), "", self._target()) for _ in range(10)]
        self.adjectives = [Word(self._source(), self._target()) for _ in range(18)]
        self.manner = [Word(self._source(), self._target()) for _ in range(6)]
        self.time = [Word(self._source(), self._target()) for _ in range(6)]

    def _source(self) -> str:
        return self._unused("source", _source_stem, ("", "n", "en", "ta", "ata"))

    def _target(self) -> str:
        endings = [ending for kind in (NOUN_ENDINGS, ADJECTIVE_ENDINGS, PERSON_ENDINGS) for ending in kind.values()]
        return self._unused("target", _target_stem, ("", PARTICIPLE_ENDING, RELATIVE_ENDING, *endings))

    def _unused(self, side: str, draw: Callable[[random.Random], str], endings: Sequence[str]) -> str:
        while True:
            stem = draw(self.rng)
            forms = {stem + ending for ending in endings}
            if len(stem) > 2 and not forms & self._taken[side]:
                self._taken[side] |= forms
                return stem
