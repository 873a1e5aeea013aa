"""The criterions of this package. Importing it registers the modules in ``__all__`` with fairseq.

fairseq imports the folders ``models`` and ``tasks`` of a ``--user-dir``, but not its criterions. The package itself
therefore imports this module.
"""

from . import agreement, document_classification, guided_alignment, latent_alignment

__all__ = ["agreement", "document_classification", "guided_alignment", "latent_alignment"]
