"""Search by the engine of this package in fairseq's tools, and options of the search.

The task builds the generator of :mod:`fairseq_attn_plugin.decoding` wherever it would build fairseq's
``SequenceGenerator``, if all models of the ensemble are of this package: in fairseq-generate, fairseq-interactive,
``--eval-bleu``, the hub interface and fairseq-attn. ``--decoding-engine stock`` leaves fairseq's.

An option of this package becomes a field of fairseq's ``GenerationConfig``: a flag of
fairseq-generate and fairseq-interactive, an entry of ``generation`` in YAML and of ``--eval-bleu-args``, and a keyword
of ``generate`` and ``translate`` of the hub interface.

The loop of fairseq-generate looks up options in omegaconf's containers twenty times for every sentence, and makes
strings of tensors symbol by symbol. It gets plain attributes, and the dictionary a list; what is printed is the same.
It translates the part of ``--num-shards`` and ``--shard-id``, which stock ignores.
"""

from argparse import Namespace
from dataclasses import fields
from typing import Any, Callable, Dict, Optional

import torch

from ..added_options import add_options
from ..attention import Option
from ..errors import OptionError
from ..options import flag, need
from ..ranges import check_search
from .wrapping import Patch, around, before


def _add_options() -> None:
    from fairseq.dataclass.configs import GenerationConfig
    from fairseq.dataclass.initialize import hydra_init

    from fairseq_attn_plugin.decoding.options import DecodingOptions

    options = {own.name: Option(own.name, own.type, own) for own in fields(DecodingOptions)}
    if options.keys() <= GenerationConfig.__dataclass_fields__.keys():
        return
    add_options(GenerationConfig, options, "generation", {})
    hydra_init()  # hydra keeps a copy of the configuration, which would refuse the options


@around
def _choosing(
    build: Callable[..., Any],
    self: Any,
    models: Any,
    args: Any,
    seq_gen_cls: Any = None,
    extra_gen_cls_kwargs: Optional[Dict[str, Any]] = None,
    *others: Any,
    **options: Any,
) -> Any:
    # after fairseq_attn_plugin.models has been imported, which the patches precede
    from fairseq_attn_plugin.decoding.generator import check_alignment, generator_class
    from fairseq_attn_plugin.decoding.options import DecodingOptions

    check_search(args)
    language_model = (extra_gen_cls_kwargs or {}).get("lm_model")
    if hasattr(language_model, "encoder"):
        raise OptionError(f"--lm-path {args.lm_path}: is no language model; give one, such as a transformer_lm")
    if language_model is not None and language_model.decoder.dictionary != self.target_dictionary:
        raise OptionError(
            f"--lm-path {args.lm_path}: has other words than the target language, or another order of them; train it "
            "on data that fairseq-preprocess --only-source --srcdict has made with the dictionary of this language"
        )
    decoding, alignment = DecodingOptions.of(args), getattr(args, "print_alignment", None)
    check_alignment(models, alignment, each=getattr(args, "score_reference", False))  # fairseq's scorer adds all
    if getattr(args, "score_reference", False):
        decoding.check_unused("--score-reference scores references with the model itself and translates nothing")
        hard = "hard with --score-reference; fairseq-attn extract writes weights"
        need(alignment != "soft", args, "print_alignment", hard)
    elif seq_gen_cls is None:
        seq_gen_cls = generator_class(models, decoding, alignment)
        for model in models if alignment else ():
            decoder: Any = getattr(model, "decoder", None)
            if hasattr(decoder, "need_attn"):  # the hub interface turns it off, unless it was built with the option
                decoder.need_attn = True
        if seq_gen_cls is not None:
            printed = {"print_alignment": alignment} if alignment else {}
            extra_gen_cls_kwargs = {**(extra_gen_cls_kwargs or {}), "decoding": decoding, **printed}
    return build(self, models, args, seq_gen_cls, extra_gen_cls_kwargs, *others, **options)


DECODING = Patch(
    name="decoding",
    reason="fairseq's beam search copies and sorts more than it has to, hypothesis by hypothesis",
    wraps={"fairseq.tasks.fairseq_task:FairseqTask.build_generator": _choosing},
    extra=_add_options,
)


# ---- generation loop


GROUPS = ("common", "common_eval", "dataset", "generation")


@around
def _with_plain_options(main: Callable[..., Any], cfg: Any, output_file: Any) -> Any:
    plain = {name: Namespace(**cfg[name]) for name in GROUPS}
    shards = cfg.dataset.num_shards
    if shards > 1:  # stock reads the shard from the options of distributed training alone
        shard = {"distributed_world_size": shards, "distributed_rank": cfg.dataset.shard_id}
        plain["distributed_training"] = Namespace(**{**cfg.distributed_training, **shard})
    try:
        return main(Namespace(**{**{name: cfg[name] for name in cfg}, **plain}), output_file)
    except ZeroDivisionError:  # a shard without a batch has no time to divide by
        fewer = "less: there are fewer batches, of which a smaller --batch-size makes more"
        need(shards == 1, cfg.dataset, "num_shards", fewer)
        raise
    except TypeError as error:  # in a split without a target side, fairseq's words of what is missing
        for name, missing in (("prefix_size", "'NoneType' object is not subscriptable"), ("score_reference", "'prev_")):
            if missing in str(error) and getattr(cfg.generation, name):
                raise OptionError(
                    f"{flag(name)}: split {cfg.dataset.gen_subset} has no references; leave it out"
                ) from None
        raise


@before
def _refusing(cfg: Any) -> None:
    options = cfg.generation
    if options.score_reference:
        raise OptionError("--score-reference: needs references, which fairseq-generate reads; leave it out")
    hard = options.print_alignment != "soft"
    need(hard, options, "print_alignment", "hard; fairseq-generate and fairseq-attn extract write weights")
    need(options.lm_path is None, options, "lm_path", "left out; fairseq-generate reads a language model")
    need(not options.prefix_size, options, "prefix_size", "left out: it needs references, which fairseq-generate reads")
    joining = cfg.common_eval.post_process
    if options.replace_unk is not None and joining is not None:
        raise OptionError(
            f"--replace-unk: fairseq-interactive copies wrong words beside --post-process {joining}; leave one out, or "
            "use fairseq-attn translate"
        )


@around
def _of_lists(string: Callable[..., str], self: Any, tensor: Any, *args: Any, **options: Any) -> str:
    flat = torch.is_tensor(tensor) and tensor.dim() == 1
    return string(self, tensor.tolist() if flat else tensor, *args, **options)


GENERATION_LOOP = Patch(
    name="generation_loop",
    reason="fairseq-generate spends as long between the batches as a fast search in them",
    wraps={
        "fairseq_cli.generate:_main": _with_plain_options,
        "fairseq_cli.interactive:main": _refusing,
        "fairseq.data.dictionary:Dictionary.string": _of_lists,
    },
)
