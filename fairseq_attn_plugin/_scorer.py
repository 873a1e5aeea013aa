"""``fairseq-generate --score-reference --print-alignment soft``.

Stock fairseq's scorer of references computes hard alignments always, and fails when it prints them as soft ones.
"""

import functools
from typing import Any


def install() -> None:
    """Give the scorer soft alignments where they are asked for; calling it again changes nothing."""
    from fairseq import utils
    from fairseq.sequence_scorer import SequenceScorer

    original = SequenceScorer.generate
    if getattr(original, "knows_soft_alignments", False):
        return

    @functools.wraps(original)
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

    generate.knows_soft_alignments = True  # type: ignore[attr-defined]
    SequenceScorer.generate = generate
