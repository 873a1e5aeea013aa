"""``fairseq-generate --score-reference --print-alignment soft``.

Stock fairseq's scorer of references always computes hard alignments, and stops when it prints them as soft ones. The
patch computes soft alignments if they are asked for.
"""

from typing import Any, Callable

from .wrapping import Patch

__all__ = ["PATCH"]


def _with_soft_alignments(original: Callable[..., Any]) -> Callable[..., Any]:
    from fairseq import utils

    def generate(self: Any, models: Any, sample: Any, **kwargs: Any) -> Any:
        hypotheses = original(self, models, sample, **kwargs)
        if self.compute_alignment == "soft":
            for row, (hypothesis,) in enumerate(hypotheses):
                attention, source = hypothesis["attention"], sample["net_input"]["src_tokens"][row]
                if attention is not None:
                    hypothesis["alignment"] = utils.extract_soft_alignment(
                        attention, source, sample["target"][row], self.pad, self.eos
                    )
        return hypotheses

    return generate


PATCH = Patch(
    name="scorer",
    reason="fairseq-generate --score-reference --print-alignment soft stops with an error",
    checked=("0.12.3", "0.12.3.1"),
    wraps={"fairseq.sequence_scorer:SequenceScorer.generate": _with_soft_alignments},
)
