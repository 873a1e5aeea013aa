"""The grammar of the synthetic corpus: draws sentence pairs with their word links.

:mod:`.generation` lists the constructions, :mod:`.word_forms` has the words.
"""

import random
from dataclasses import dataclass, field
from typing import NamedTuple, Sequence

from fairseq_attn_plugin.toy_corpus import word_forms as lex
from fairseq_attn_plugin.toy_corpus.word_forms import Lexicon, Verb, pick


class SentencePair(NamedTuple):
    """Words of both sides, and the sorted links (source index, target index), counted from 0."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: tuple[tuple[int, int], ...]


class _Token(NamedTuple):
    form: str
    keys: tuple[int, ...]  # tokens of both sides are linked if they share a key; () has no link


@dataclass
class _Phrase:
    source: list[_Token] = field(default_factory=list)
    target: list[_Token] = field(default_factory=list)
    person: str = "sg3"
    animate: bool = False


class Grammar:
    """Draws sentence pairs. Each construction builds both sides and their links together."""

    def __init__(self, lexicon: Lexicon, rng: random.Random) -> None:
        self._lexicon, self._rng, self._last_key = lexicon, rng, 0

    def sentence(self) -> SentencePair:
        question = self._chance(0.1)
        phrase = self._clause(question, plain=False)
        if not question and self._chance(0.15):
            phrase = self._join(phrase, self._clause(False, plain=True))
        key = self._key()
        end = "?" if question else "."
        source = phrase.source + [_Token(end, key)]
        target = phrase.target + ([_Token(lex.QUESTION_MARKER, ())] if question else []) + [_Token(end, key)]
        links = (
            (i, j)
            for i, left in enumerate(source)
            for j, right in enumerate(target)
            if set(left.keys) & set(right.keys)
        )
        return SentencePair(tuple(t.form for t in source), tuple(t.form for t in target), tuple(links))

    def _chance(self, probability: float) -> bool:
        return self._rng.random() < probability

    def _key(self) -> tuple[int, ...]:
        self._last_key += 1
        return (self._last_key,)

    def _join(self, first: _Phrase, second: _Phrase) -> _Phrase:
        comma, key = [_Token(",", self._key())], self._key()
        if self._chance(0.4):
            because = [_Token(lex.BECAUSE_TARGET, key)]
            target = second.target + because + comma + first.target
            return _Phrase(first.source + comma + [_Token(lex.BECAUSE, key)] + second.source, target)
        source, word = pick(self._rng, list(lex.CONJUNCTIONS.items()))
        target = first.target + comma + [_Token(word, key)] + second.target
        return _Phrase(first.source + comma + [_Token(source, key)] + second.source, target)

    def _clause(self, question: bool, plain: bool) -> _Phrase:
        subject = self._subject(plain)
        transitive = self._chance(0.7)
        verb = pick(self._rng, self._lexicon.transitive if transitive else self._lexicon.intransitive)
        thing = self._noun_phrase() if transitive else _Phrase()
        if thing.animate:
            thing.target.append(_Token(lex.OBJECT_MARKER, ()))
        tense = pick(self._rng, ("present", "present", "past", "past", "future"))
        auxiliary, main, particle, target_verb = self._verb(verb, tense, subject.person)
        negation = _Phrase()
        if self._chance(0.15):
            key = self._key()
            negation = _Phrase([_Token(lex.NEGATION, key)], [_Token(lex.NEGATION_TARGET, key)])
        manner = self._adverb(self._lexicon.manner, 0.2)
        place = self._adposition() if not plain and self._chance(0.3) else _Phrase()
        time = self._adverb(self._lexicon.time, 0.0 if plain else 0.2)
        if question and auxiliary:
            opening = negation.source + auxiliary + subject.source + main
        elif question:
            opening = negation.source + main + subject.source
        else:
            opening = subject.source + negation.source + auxiliary + main
        source = [*opening, *manner.source, *thing.source, *particle, *place.source, *time.source]
        target = [*time.target, *subject.target, *place.target, *thing.target, *manner.target, *target_verb]
        return _Phrase(source, target + negation.target)

    def _subject(self, plain: bool) -> _Phrase:
        if self._chance(0.25):
            person, pronoun = pick(self._rng, list(lex.PRONOUNS.items()))
            return _Phrase([_Token(pronoun, ())], [], person)
        phrase = self._noun_phrase()
        if not plain and self._chance(0.12):
            verb, key = pick(self._rng, self._lexicon.intransitive), self._key()
            phrase.source += [_Token(lex.RELATIVE, key), _Token(verb.source, key)]
            phrase.target.insert(0, _Token(verb.target + lex.RELATIVE_ENDING, key))
        return phrase

    def _noun_phrase(self) -> _Phrase:
        key = self._key()
        if self._chance(0.12):
            name = lex.draw_name(self._rng)
            return _Phrase([_Token(name, key)], [_Token(lex.transliterate(name), key)], "sg3", animate=True)
        noun = pick(self._rng, self._lexicon.nouns)
        number = "pl" if self._chance(0.35) else "sg"
        head = noun.target + lex.NOUN_ENDINGS[noun.gender, number]
        agreement = lex.ADJECTIVE_ENDINGS[noun.gender, number]
        head_keys, after = key, []
        kind = pick(self._rng, (*("article",) * 5, "possessive", "demonstrative", "other"))
        words = {"possessive": lex.POSSESSIVES, "demonstrative": lex.DEMONSTRATIVES, "other": lex.NUMERALS}.get(kind)
        determiner = _Token(lex.ARTICLES[number], ())
        if words is not None and (kind != "other" or number == "pl"):
            word, counterpart = pick(self._rng, list(words.items()))
            determiner = _Token(word, self._key())
            if kind == "possessive":
                head, head_keys = head + counterpart, key + determiner.keys
            else:
                after = [_Token(counterpart + (agreement if kind == "demonstrative" else ""), determiner.keys)]
        phrase = _Phrase([determiner], [], number + "3", noun.animate)
        phrase.target += [_Token(noun.modifier, key)] if noun.modifier else []
        phrase.target += [_Token(head, head_keys)]
        count = self._chance(0.45) + self._chance(0.1)
        for adjective in lex.pick_several(self._rng, self._lexicon.adjectives, count):
            own = self._key()
            phrase.source.append(_Token(adjective.source, own))
            # the first adjective is nearest to the noun in both languages
            after.insert(0, _Token(adjective.target + agreement, own))
        phrase.source.append(_Token(lex.source_plural(noun.source) if number == "pl" else noun.source, key))
        phrase.target += after
        return phrase

    def _verb(self, verb: Verb, tense: str, person: str) -> tuple[list[_Token], ...]:
        """Velarin auxiliary, verb and particle, and the Dormeth verb; all of them are linked."""
        key, ending = self._key(), lex.PERSON_ENDINGS[person]
        auxiliary, source, target = [], verb.source, [verb.target + ending]
        if tense == "past":
            source, target = lex.source_past(source), [verb.target + lex.PARTICIPLE_ENDING, lex.PAST_AUXILIARY[person]]
        elif tense == "future":
            auxiliary, target = [lex.FUTURE], [verb.target + lex.FUTURE_ENDING + ending]
        particle = [verb.particle] if verb.particle else []
        return tuple([_Token(form, key) for form in forms] for forms in (auxiliary, [source], particle, target))

    def _adverb(self, words: Sequence[lex.Word], probability: float) -> _Phrase:
        if not self._chance(probability):
            return _Phrase()
        word, key = pick(self._rng, words), self._key()
        return _Phrase([_Token(word.source, key)], [_Token(word.target, key)])

    def _adposition(self) -> _Phrase:
        phrase, key = self._noun_phrase(), self._key()
        before, after = pick(self._rng, list(lex.PREPOSITIONS.items()))
        return _Phrase([_Token(before, key)] + phrase.source, phrase.target + [_Token(after, key)])
