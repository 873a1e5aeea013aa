"""Search by the engine of this package in fairseq's tools, and options of the search.

The task builds the generator of :mod:`fairseq_attn_plugin.decoding` wherever it would build fairseq's
``SequenceGenerator``, if all models of the ensemble are of this package: in fairseq-generate, fairseq-interactive,
``--eval-bleu``, the hub interface and fairseq-attn. ``--decoding-engine stock`` leaves fairseq's.

An option of this package becomes a field of fairseq's ``GenerationConfig`` (:func:`add_options`): a flag of
fairseq-generate and fairseq-interactive, an entry of ``generation`` in YAML and of ``--eval-bleu-args``, and a keyword
of ``generate`` and ``translate`` of the hub interface.

The loop of fairseq-generate looks up options in omegaconf's containers twenty times for every sentence, and makes
strings of tensors symbol by symbol. It gets plain attributes, and the dictionary a list; what is printed is the same.
"""

from dataclasses import Field, field, fields, make_dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

import torch

from ..decoding.search_options import check_search
from .wrapping import Patch

__all__ = ["DECODING", "GENERATION_LOOP", "add_options"]

# ---- generation options


def add_options(options: "Mapping[str, Tuple[Any, Field[Any]]]") -> None:
    """Add fields to ``GenerationConfig``, in the class itself: other modules have imported it by name.

    Args:
        options: type, and default with metadata (:func:`fairseq_attn_plugin.options.option`), by the field's name
    """
    from fairseq.dataclass.configs import GenerationConfig
    from fairseq.dataclass.initialize import hydra_init

    known: Dict[str, Any] = GenerationConfig.__dataclass_fields__
    new = {name: added for name, added in options.items() if name not in known}
    if not new:
        return
    own = [(name, kind, field(default=of.default, metadata=of.metadata)) for name, (kind, of) in new.items()]
    extended: Any = make_dataclass("GenerationConfig", own, bases=(GenerationConfig,))
    for name, (kind, declared) in new.items():
        known[name] = extended.__dataclass_fields__[name]
        GenerationConfig.__annotations__[name] = kind
        setattr(GenerationConfig, name, declared.default)
    hydra_init()  # hydra keeps a copy of the configuration, which would refuse the options


# ---- decoding


def _add_options() -> None:
    from fairseq_attn_plugin.decoding.options import DecodingOptions

    add_options({own.name: (own.type, own) for own in fields(DecodingOptions)})


def _choosing(build: Callable[..., Any]) -> Callable[..., Any]:
    def build_generator(
        self: Any,
        models: Any,
        args: Any,
        seq_gen_cls: Any = None,
        extra_gen_cls_kwargs: Optional[Dict[str, Any]] = None,
        *others: Any,
        **options: Any,
    ) -> Any:
        # after fairseq_attn_plugin.models has been imported, which the patches precede
        from fairseq_attn_plugin.decoding.generator import generator_class
        from fairseq_attn_plugin.decoding.options import DecodingOptions

        check_search(args)
        decoding = DecodingOptions.of(args)
        if getattr(args, "score_reference", False):
            decoding.check_unused("--score-reference scores references with the model itself and translates nothing")
        elif seq_gen_cls is None:
            seq_gen_cls = generator_class(models, decoding, getattr(args, "print_alignment", None))
            if seq_gen_cls is not None:
                extra_gen_cls_kwargs = {**(extra_gen_cls_kwargs or {}), "decoding": decoding}
                if getattr(args, "print_alignment", None):
                    extra_gen_cls_kwargs["print_alignment"] = args.print_alignment
        return build(self, models, args, seq_gen_cls, extra_gen_cls_kwargs, *others, **options)

    return build_generator


DECODING = Patch(
    name="decoding",
    reason="fairseq's beam search copies and sorts more than it has to, hypothesis by hypothesis",
    wraps={"fairseq.tasks.fairseq_task:FairseqTask.build_generator": _choosing},
    extra=_add_options,
)


# ---- generation loop


GROUPS = ("common", "common_eval", "dataset", "generation")


class _Group:
    """A group of options as plain attributes. What is set is set in the original, too."""

    _group: Any

    def __init__(self, group: Any):
        self.__dict__["_group"] = group
        self.__dict__.update((name, getattr(group, name)) for name in group)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value
        setattr(self._group, name, value)


class _Options:
    """A configuration with plain :data:`GROUPS`."""

    def __init__(self, cfg: Any):
        self._cfg = cfg
        self.__dict__.update((name, _Group(cfg[name])) for name in GROUPS)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cfg, name)

    def __repr__(self) -> str:
        return repr(self._cfg)


def _with_plain_options(main: Callable[..., Any]) -> Callable[..., Any]:
    def _main(cfg: Any, output_file: Any) -> Any:
        return main(_Options(cfg), output_file)

    return _main


def _of_lists(string: Callable[..., str]) -> Callable[..., str]:
    def from_indices(self: Any, tensor: Any, *args: Any, **options: Any) -> str:
        flat = torch.is_tensor(tensor) and tensor.dim() == 1
        return string(self, tensor.tolist() if flat else tensor, *args, **options)

    return from_indices


GENERATION_LOOP = Patch(
    name="generation_loop",
    reason="fairseq-generate spends as long between the batches as a fast search in them",
    wraps={
        "fairseq_cli.generate:_main": _with_plain_options,
        "fairseq.data.dictionary:Dictionary.string": _of_lists,
    },
)
