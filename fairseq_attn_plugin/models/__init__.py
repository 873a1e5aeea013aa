"""fairseq models, their configurations and the checks of their options. Importing the package registers every model."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
