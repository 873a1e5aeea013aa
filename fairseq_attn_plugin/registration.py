"""When the package registers itself: as soon as fairseq is there, and no earlier.

What reads records needs neither fairseq nor torch, whose import takes seconds. Where fairseq is not imported yet, a
finder in ``sys.meta_path`` waits for it, whoever imports it. A part of the package that builds on fairseq imports it
first, so that nothing is found half registered.
"""

import logging
import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Optional

PACKAGE = "fairseq_attn_plugin"
# fairseq imports models/*.py and tasks/*.py of a --user-dir itself, but not the rest, and none of them without a
# --user-dir; Python imports a module once, so that nothing is registered twice
REGISTERED = ("attention", "models", "tasks", "criterions", "optimizers")
OTHERS = ("added_options", "export", "modules", "patches", "testing")
NEED_FAIRSEQ = tuple(f"{PACKAGE}.{part}" for part in (*REGISTERED, *OTHERS))
# modules of decoding that need neither: options, and the translator of exported models
LIGHT_PARTS = ("options", "export", "export.runtime", "export.exported_folder")
LIGHT = tuple(f"{PACKAGE}.decoding.{part}" for part in LIGHT_PARTS)


def register_with_fairseq() -> None:
    """Registers everything now if fairseq is imported, else when it is. Without fairseq, the mechanisms alone; without
    torch, nothing: exported models need neither."""
    if "fairseq" in sys.modules:
        _register()
    elif find_spec("fairseq") is not None:
        sys.meta_path.insert(0, _Waiting())
    elif find_spec("torch") is not None:
        import_module(PACKAGE + ".attention.registry").load_entry_points()


def _register() -> None:
    # first, so that a mistake in the imports below is reported as clearly as any other
    import_module(PACKAGE + ".patches").install()
    for part in REGISTERED:
        import_module(f"{PACKAGE}.{part}")
    # last, so that a mechanism of an installed package finds everything
    import_module(PACKAGE + ".attention.registry").load_entry_points()


class _Waiting(MetaPathFinder):
    """Waits for the import of fairseq, and has it followed by the registration."""

    looking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        if self.looking or "fairseq" in sys.modules:
            return None
        # the patches wrap functions of fairseq_cli's modules, which must not be half imported then
        if name in (*NEED_FAIRSEQ, "fairseq_cli") or (name.startswith(PACKAGE + ".decoding.") and name not in LIGHT):
            import_module("fairseq")  # imports this part as well
            module = sys.modules.get(name)
            if module is not None:  # importlib takes the module's own specification, and would execute it again
                module.__spec__ = ModuleSpec(name, _Imported(module), is_package=hasattr(module, "__path__"))
            return getattr(module, "__spec__", None)
        if name != "fairseq":
            return None
        self.looking = True  # the other finders find it
        try:
            spec = find_spec(name)
        finally:
            self.looking = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                configured = logging.root.handlers[:]
                execute(module)
                # its wav2vec2_classification.py asks for DEBUG, which shows the messages of every library
                if not configured and logging.root.level == logging.DEBUG:
                    logging.root.setLevel(logging.INFO)
                _register()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class _Imported(Loader):
    """Loads a module that was imported while it was being looked for: there is nothing left to do."""

    def __init__(self, module: ModuleType):
        self.module, self.own = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.own
