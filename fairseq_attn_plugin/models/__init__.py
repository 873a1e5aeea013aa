"""fairseq models, their configurations and the checks of their options. Importing the package registers every model."""

from ..attention import import_all

import_all(__name__, __path__)
