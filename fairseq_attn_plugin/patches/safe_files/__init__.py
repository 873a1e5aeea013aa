"""Nothing runs code of a checkpoint, a data folder or a configuration, and none takes memory that it does not hold.

:mod:`.literals` takes the place of ``eval``, :mod:`.arrays` of numpy's own types in files, :mod:`.contents` checks what
a checkpoint holds, and :mod:`.checkpoints` when it is read and what is built from it.
"""
