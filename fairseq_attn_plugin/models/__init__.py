"""fairseq models: one file per family of models, with its configuration and named architectures.

Importing the package imports every file, and each family registers its models with fairseq. The layers of the models
are in :mod:`fairseq_attn_plugin.modules`.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    if not _module.name.startswith("_"):
        importlib.import_module(f"{__name__}.{_module.name}")
