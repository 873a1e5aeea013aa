"""Numbers with their nouns, for messages: 1 sentence, 2,000 sentences."""


def counted(number: int, noun: str) -> str:
    """``1 sentence``, ``2 sentences``; the plural of the noun ends in s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
