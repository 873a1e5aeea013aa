"""The card of a model, as a Hugging Face Hub reads it: data, languages, architecture, scores with their signatures."""

import json
import re
import shlex
from functools import partial
from typing import Any, Mapping

from fairseq_attn_plugin.analysis.pages.document import plain
from fairseq_attn_plugin.analysis.pages.frame import templates

CARD = "README.md"
METRICS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
# the folders of a path of the machine, alone, after "=" or in a list with ":"; an address with :// is none
_FOLDERS = re.compile(r"(?:^|(?<=[=:]))(?:~|/(?!/))[^:]*/(?=[^:])")


def model_card(name: str, content: Mapping[str, Any], subwords: str, tokenizer: str, lowercase: bool) -> str:
    """The card as Markdown with YAML in front.

    Args:
        name: of the model
        content: settings of its folder; of paths of the machine the names are shown
        subwords: name of what makes them, or none
        tokenizer: its name, or none
        lowercase: whether the source text has no capital letters
    """
    markdown = templates().overlay(autoescape=False)  # the filter plain escapes
    # a JSON string is a YAML string
    markdown.filters = {
        **markdown.filters,
        "plain": plain,
        "yaml": partial(json.dumps, ensure_ascii=False),
        "quote": shlex.quote,
    }
    return markdown.get_template("model_card.md").render(
        content,
        name=name,
        scores=[{"type": metric, "name": METRICS[metric], **one} for metric, one in content["scores"].items()],
        command=shlex.join(_FOLDERS.sub("", word) for word in content["command"]),
        subwords=subwords,
        tokenizer=tokenizer,
        lowercase=lowercase,
    )
