"""``fairseq-generate --replace-unk``.

Stock fairseq has the option, but it fails: without a file it opens a file called "@@ ", with ``--print-alignment`` it
takes the pairs of an alignment for numbers, without ``--print-alignment`` the alignment is empty, and with
``--remove-bpe`` it looks up the positions of subwords among words. The patch replaces unknown words before subwords
are joined (:func:`fairseq_attn_plugin.text.unknown_words.replace_unknown`).
"""

from typing import Any, Callable, Dict, Optional

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lexicon import best_translations, read_lexicon
from fairseq_attn_plugin.text.unknown_words import positions_of, replace_unknown

from .wrapping import Patch

__all__ = ["PATCH"]

NO_FILE = "@@ "  # what fairseq makes of --replace-unk without a file


def _reading_lexicons(_load: Callable[..., Any]) -> Callable[..., Any]:
    def load_align_dict(replace_unk: Optional[str]) -> Optional[Dict[str, str]]:
        if replace_unk is None:
            return None
        return {} if replace_unk in ("", NO_FILE) else best_translations(read_lexicon(replace_unk, "--replace-unk"))

    return load_align_dict


def _replacing(process: Callable[..., Any]) -> Callable[..., Any]:
    def post_process_prediction(
        hypo_tokens: Any,
        src_str: str,
        alignment: Any,
        align_dict: Optional[Dict[str, str]],
        tgt_dict: Any,
        remove_bpe: Optional[str] = None,
        extra_symbols_to_ignore: Any = None,
    ) -> Any:
        if align_dict is None:
            return process(hypo_tokens, src_str, alignment, align_dict, tgt_dict, remove_bpe, extra_symbols_to_ignore)
        from fairseq.data.data_utils import post_process
        from fairseq.tokenizer import tokenize_line

        tokens = tgt_dict.string(hypo_tokens, extra_symbols_to_ignore=extra_symbols_to_ignore).split(" ")
        if tgt_dict.unk_string() in tokens:
            if not len(alignment):
                raise OptionError("--replace-unk: needs the alignment of the words; add --print-alignment")
            tokens = replace_unknown(tokens, tokenize_line(src_str), positions_of(alignment), align_dict)
        text = post_process(" ".join(tokens), remove_bpe)
        return tgt_dict.encode_line(text, add_if_not_exist=True), text, alignment

    return post_process_prediction


PATCH = Patch(
    name="unknown_words",
    reason="fairseq-generate --replace-unk stops with an error",
    checked=("0.12.3", "0.12.3.1"),
    wraps={
        "fairseq.utils:load_align_dict": _reading_lexicons,
        "fairseq.utils:post_process_prediction": _replacing,
    },
)
