"""The models of this package translate with its own decoding engine (:mod:`fairseq_attn_plugin.decoding`).

The task builds the engine's generator wherever it would build fairseq's ``SequenceGenerator``, if all models of the
ensemble are of this package: in fairseq-generate, fairseq-interactive, ``--eval-bleu``, the hub interface and
fairseq-attn. ``--decoding-engine stock`` leaves fairseq's. The options of decoding become fields of fairseq's
``GenerationConfig``.
"""

from dataclasses import fields
from typing import Any, Callable, Dict, Optional

from ..decoding.search_options import check_search
from .generation_options import add_options
from .wrapping import Patch

__all__ = ["PATCH"]


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


PATCH = Patch(
    name="decoding",
    reason="fairseq's beam search copies and sorts more than it has to, hypothesis by hypothesis",
    checked=("0.12.3", "0.12.3.1"),
    wraps={"fairseq.tasks.fairseq_task:FairseqTask.build_generator": _choosing},
    extra=_add_options,
)
