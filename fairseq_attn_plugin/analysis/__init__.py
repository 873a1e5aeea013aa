"""Analysis of trained models: attention, alignments, outputs, pictures, reports. The command is ``fairseq-attn``."""
