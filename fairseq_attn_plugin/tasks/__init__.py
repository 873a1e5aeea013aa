"""fairseq tasks. Every file registers one."""

from ..attention import import_all

import_all(__name__, __path__)
