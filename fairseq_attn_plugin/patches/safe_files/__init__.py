"""Nothing runs code of a checkpoint, a data folder or a configuration.

:mod:`.literals` takes the place of ``eval``, :mod:`.arrays` of numpy's own types in files. :mod:`.checkpoints` looks at
a checkpoint before fairseq does.
"""
