"""Types of command-line options."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} must be at least 1")
    return value


def number_list(text: str) -> list[int]:
    return [positive(item) for item in text.split(",")]


def class_list(text: str) -> list[tuple[int, int]]:
    classes = []
    for item in text.split(","):
        shortest, _, longest = item.partition("-")
        if not (shortest.isdigit() and longest.isdigit() and 1 <= int(shortest) <= int(longest)):
            raise argparse.ArgumentTypeError(f"{item!r} must be a class of lengths: two numbers, as in 4-7,8-11")
        classes.append((int(shortest), int(longest)))
    return classes
