"""The criterions of this package. Importing it registers them with fairseq.

fairseq imports the folders ``models`` and ``tasks`` of a ``--user-dir``, but not its criterions. The package itself
therefore imports this module.
"""

from . import agreement, document_classification, guided_alignment, latent_alignment
