"""fairseq criterions. Files whose name starts with ``_`` hold parts of criterions; every other file registers one."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    if not _module.name.startswith("_"):
        importlib.import_module(f"{__name__}.{_module.name}")
