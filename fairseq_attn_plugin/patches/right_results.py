"""Where stock fairseq gives wrong results, or stops at an option that it has.

- **Batches that hold every sentence:** stock drops the last batch if its size is not a multiple of
  ``--required-batch-size-multiple`` (default: 8), so that the BLEU score is that of a part of the test set.
- ``--diverse-beam-groups`` stops with an IndexError in the first batch that does not begin the data set: numbers of
  sentences are looked up by their place in the data set. They are passed by their place in the batch.
- ``--no-repeat-ngram-size`` forbids nothing on processors: stock compares padding in place of the last words.
- ``--replace-unk``: stock opens a file called "@@ " without a file, takes the pairs of an alignment for numbers, and
  looks up positions of subwords among words. Here unknown words are replaced before subwords are joined. Stock scores
  joined translations against references in subwords; here the subwords of references are joined as well.
- ``--log-file``: stock opens the file again for every epoch.
- ``--store-ema``: stock averages tables of whole numbers, too, and stops. They are copied, as are numbers that are no
  parameters. It averages shared embeddings once for each of their names. It stops where a checkpoint has no averages,
  which begin with its parameters here. A resumed training counts for ``--ema-update-freq`` from zero.
- ``--combine-val``, and a folder with train and train1: stock stops in numpy without ``--upsample-primary``.
- Data of ``--dataset-impl lazy``, which are read as cached ones without the option: stock stops at the first batch.
- ``--amp``: stock divides gradients by the loss scale twice: torch's scaler knows optimizers by their identity, and is
  given fairseq's after torch's. SGD then takes steps that are too short by this factor, and the epsilon of Adam counts
  as much more.
"""

import logging
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Optional

import numpy as np
import torch

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lexicon import read_lexicon
from fairseq_attn_plugin.text.unknown_words import positions_of, replace_unknown

from .wrapping import Patch, after, around, before

# ---- batches


@around
def _complete(
    batch_by_size: Callable[..., List[Any]],
    indices: Any,
    num_tokens_fn: Any,
    num_tokens_vec: Any = None,
    max_tokens: Any = None,
    max_sentences: Any = None,
    required_batch_size_multiple: int = 1,
    fixed_shapes: Any = None,
) -> List[Any]:
    limits = (max_tokens, max_sentences)
    if not isinstance(indices, np.ndarray):
        indices = np.fromiter(indices, dtype=np.int64, count=-1)
    if not len(indices) and required_batch_size_multiple > 1:  # stock would fail, and otherwise returns no batch
        raise OptionError(
            "every sentence is longer than --max-tokens, --max-source-positions or --max-target-positions allow; "
            "raise them"
        )
    batches = batch_by_size(indices, num_tokens_fn, num_tokens_vec, *limits, required_batch_size_multiple, fixed_shapes)
    kept = sum(len(batch) for batch in batches)
    if fixed_shapes is None and kept < len(indices):
        # batches follow the order of the indices: the missing ones are the last
        sizes = None if num_tokens_vec is None else np.asarray(num_tokens_vec)[kept:]
        batches = list(batches) + list(batch_by_size(indices[kept:], num_tokens_fn, sizes, *limits, 1))
    return batches


BATCHES = Patch(
    name="batches",
    reason="fairseq-generate and fairseq-validate skip up to seven of the longest sentences",
    wraps={"fairseq.data.data_utils:batch_by_size": _complete},
)


# ---- data sets


@around
def _once_unless_asked(init: Callable[..., None], self: Any, datasets: Any, sample_ratios: Any = 1) -> None:
    if not isinstance(sample_ratios, int):
        sample_ratios = [1 if ratio < 0 else ratio for ratio in sample_ratios]
    init(self, datasets, sample_ratios)


@before
def _reading_what_is_missing(self: Any, i: int) -> None:
    if i not in self.cache_index:
        self.prefetch([i])


DATA_SETS = Patch(
    name="data_sets",
    reason="--combine-val, or a folder with train and train1, stops in numpy without --upsample-primary; data of "
    "--dataset-impl lazy stop a training without the option",
    wraps={
        "fairseq.data.concat_dataset:ConcatDataset.__init__": _once_unless_asked,
        "fairseq.data.indexed_dataset:IndexedCachedDataset.__getitem__": _reading_what_is_missing,
    },
)


# ---- diverse beam


@around
def _by_place(
    search: Callable[..., Any],
    self: Any,
    step: int,
    lprobs: Any,
    scores: Any,
    prev_output_tokens: Any = None,
    original_batch_idxs: Any = None,
) -> Any:
    if original_batch_idxs is not None:
        if step == 0:
            self.sentences = original_batch_idxs
        # [sentences still searched, sentences of the batch], one True in each row
        same = original_batch_idxs.unsqueeze(1) == self.sentences.unsqueeze(0)
        original_batch_idxs = same.int().argmax(1)
    return search(self, step, lprobs, scores, prev_output_tokens, original_batch_idxs)


DIVERSE_BEAM = Patch(
    name="diverse_beam",
    reason="--diverse-beam-groups stops in the first batch that does not begin the data set",
    wraps={"fairseq.search:DiverseBeamSearch.step": _by_place},
)


# ---- repeated n-grams


@around
def _of_the_words_so_far(
    find: Callable[..., Any], self: Any, tokens: Any, lprobs: Any, bsz: int, beam_size: int, step: int
) -> Any:
    found = find(self, tokens[:, : step + 1], lprobs.clone(), bsz, beam_size, step)
    return torch.where(found.isneginf().all(1, keepdim=True), lprobs, found)  # words of a prefix may repeat


REPEATED_NGRAMS = Patch(
    name="repeated_ngrams",
    reason="--no-repeat-ngram-size has no effect on processors",
    wraps={"fairseq.ngram_repeat_block:NGramRepeatBlock._no_repeat_ngram": _of_the_words_so_far},
)


# ---- unknown words


NO_FILE = "@@ "  # what fairseq makes of --replace-unk without a file


@around
def _reading_lexicons(_load: Callable[..., Any], replace_unk: Optional[str]) -> Optional[Dict[str, str]]:
    if replace_unk is None:
        return None
    lexicon = {} if replace_unk in ("", NO_FILE) else read_lexicon(replace_unk, "--replace-unk")
    return {source: entries[0].target for source, entries in lexicon.items()}


@around
def _replacing(
    process: Callable[..., Any],
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
        if alignment is None or torch.is_tensor(alignment):  # that of an empty source is an empty list
            raise OptionError("--replace-unk: needs the alignment of the words; add --print-alignment")
        subwords = "sentencepiece" if remove_bpe == "sentencepiece" else "bpe"
        tokens = replace_unknown(tokens, tokenize_line(src_str), positions_of(alignment), align_dict, subwords)
    text = post_process(" ".join(tokens), remove_bpe)
    return tgt_dict.encode_line(text, add_if_not_exist=True), text, alignment


_JOINED: List[Optional[str]] = [None]  # how fairseq-generate joins subwords, while it replaces unknown words


@around
def _telling(main: Callable[..., Any], cfg: Any, output_file: Any) -> Any:
    _JOINED[0] = None if cfg.generation.replace_unk is None else cfg.common_eval.post_process
    try:
        return main(cfg, output_file)
    finally:
        _JOINED[0] = None


@after
def _joining_references(dataset: Any, task: Any, split: str) -> None:
    from fairseq.data.data_utils import post_process

    symbol: Optional[str] = _JOINED[0]
    references: Any = getattr(dataset, "tgt", None)
    if symbol and hasattr(references, "get_original_text") and not hasattr(references, "joins"):
        original, references.joins = references.get_original_text, symbol
        references.get_original_text = lambda index: post_process(original(index), symbol)


UNKNOWN_WORDS = Patch(
    name="unknown_words",
    reason="fairseq-generate --replace-unk stops with an error",
    wraps={
        "fairseq.utils:load_align_dict": _reading_lexicons,
        "fairseq.utils:post_process_prediction": _replacing,
        "fairseq.tasks.fairseq_task:FairseqTask.dataset": _joining_references,
        "fairseq_cli.generate:_main": _telling,
    },
)


# ---- log file


def _close_files(name: str) -> None:
    for handler in list(logging.getLogger(name).handlers):
        if isinstance(handler, logging.FileHandler):
            logging.getLogger(name).removeHandler(handler)
            handler.close()


@before
def _with_one_handler(*_args: Any, **options: Any) -> None:
    if options.get("log_file"):
        _close_files("fairseq.logging.progress_bar")


@before
def _without_that_of_the_training_before(*_args: Any, **_options: Any) -> None:
    for name in ("fairseq_cli.train", "fairseq.logging.progress_bar"):
        _close_files(name)


LOG_FILE = Patch(
    name="log_file",
    reason="--log-file has each line as often as epochs have begun, and in a sweep those of the jobs after it",
    wraps={
        "fairseq.logging.progress_bar:progress_bar": _with_one_handler,
        "fairseq.distributed.utils:call_main": _without_that_of_the_training_before,
    },
)


# ---- moving averages


@after
def _without_whole_numbers(_none: None, self: Any, *_args: Any, **_options: Any) -> None:
    tensors = ((name, value) for name, value in self.model.state_dict().items() if torch.is_tensor(value))
    whole = {name for name, value in tensors if not value.is_floating_point()}
    self.skip_keys = {*self.skip_keys, *whole, *(name for name, one in self.model.named_buffers() if one.dim() == 0)}


@around
def _each_once(step: Callable[..., None], self: Any, new_model: Any, updates: Any = None) -> None:
    averages = self.fp32_params if self.config.ema_fp32 else self.model.state_dict()
    places = {name: (value.data_ptr(), value.shape) for name, value in averages.items() if torch.is_tensor(value)}
    one_name = {place: name for name, place in places.items()}
    state = {
        name: value
        for name, value in new_model.state_dict().items()
        if name not in places or not value.numel() or one_name[places[name]] == name
    }
    step(self, SimpleNamespace(state_dict=lambda: state), updates)


@after
def _with_averages(state: Dict[str, Any], *_args: Any, **options: Any) -> None:
    if "load_on_all_ranks" in options:  # by a trainer, which looks for the parameters where it has deleted them
        state["extra_state"].setdefault("ema", state["model"])


@after
def _averaging_on(extra_state: Optional[Dict[str, Any]], self: Any, *_args: Any, **_options: Any) -> None:
    if extra_state is None:
        return
    extra_state.pop("ema", None)  # it has been read, and would be held in memory
    if self.cfg.ema.store_ema:
        self.ema.update_freq_counter = self.get_num_updates() % self.cfg.ema.ema_update_freq


AVERAGES = Patch(
    name="moving_averages",
    reason="--store-ema stops at tables of whole numbers, as of a lexicon, an election and class names, and at "
    "checkpoints without averages; shared embeddings are averaged several times in an update; a resumed training "
    "averages other updates than an uninterrupted one",
    wraps={
        "fairseq.models.ema.ema:EMA.__init__": _without_whole_numbers,
        "fairseq.models.ema.ema:EMA._step_internal": _each_once,
        "fairseq.checkpoint_utils:load_checkpoint_to_cpu": _with_averages,
        "fairseq.trainer:Trainer.load_checkpoint": _averaging_on,
    },
)


# ---- automatic mixed precision


@around
def _unscaled_once(_step: Callable[..., None], self: Any) -> None:
    self.scaler.step(self.optimizer)  # which clipping has unscaled
    self.scaler.update()


MIXED_PRECISION = Patch(
    name="mixed_precision",
    reason="--amp divides gradients by the loss scale twice",
    wraps={"fairseq.optim.amp_optimizer:AMPOptimizer.step": _unscaled_once},
)
