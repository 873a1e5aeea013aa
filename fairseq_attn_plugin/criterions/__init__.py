"""The criterions of this package. Importing it registers those that ``__all__`` names with fairseq.

fairseq imports the folders ``models`` and ``tasks`` of a ``--user-dir``, but not its criterions; the package itself
imports this module.
"""

from . import agreement, document_classification, guided_alignment, latent_alignment

__all__ = ["agreement", "document_classification", "guided_alignment", "latent_alignment"]
