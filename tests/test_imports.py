"""The package's imports run one way: no circle, no arrow to a higher layer, no private name of another package."""

import ast
from functools import lru_cache
from pathlib import Path

from graphlib import TopologicalSorter

from cli import REPO

PACKAGE = "fairseq_attn_plugin"
# A layer may import from itself and from the layers before it.
LAYERS = (
    ("registration",),
    ("errors",),
    ("writing", "options", "ranges"),
    ("ops", "text", "toy_corpus"),
    ("attention",),
    ("checkpoints", "model_folder", "added_options"),
    ("modules",),
    ("models",),
    ("tasks", "criterions", "optimizers"),
    ("decoding",),
    ("export", "patches"),
    ("analysis", "testing"),
    ("corpora",),
    ("own_data",),
    ("commands",),
    ("cli",),
)
MODULES = {}
for file in sorted((REPO / PACKAGE).rglob("*.py")):
    parts = file.relative_to(REPO).with_suffix("").parts
    MODULES[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file


def imported(module: str, file: Path):
    """Each import as (module of this package, name or None, is it made when the module is imported)."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    late = {id(node) for scope in ast.walk(tree) if isinstance(scope, ast.FunctionDef) for node in ast.walk(scope)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == PACKAGE:
                    yield alias.name, None, id(node) not in late
        elif isinstance(node, ast.ImportFrom):
            base = (node.module or "").split(".") if node.module else []
            if node.level:
                package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
                base = package[: len(package) - node.level + 1] + base
            if base[:1] != [PACKAGE]:
                continue
            for alias in node.names:
                whole = ".".join([*base, alias.name])
                if whole in MODULES:
                    yield whole, None, id(node) not in late
                else:
                    yield ".".join(base), alias.name, id(node) not in late


@lru_cache(maxsize=None)
def imports():
    """Read by the tests, not by every process that collects them."""
    return {module: list(imported(module, file)) for module, file in MODULES.items()}


def layer_of(name: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if name in names)


def test_imports_run_down():
    for module, target in ((module, target) for module, found in imports().items() for target, _, _ in found):
        parts, to = module.split("."), target.split(".")
        if len(parts) == 1 or len(to) == 1:
            continue  # the package itself registers everything
        assert layer_of(to[1]) <= layer_of(parts[1]), f"{module} imports {target}, which is above it"


def test_nothing_private_is_imported_from_another_module():
    for module, found in imports().items():
        package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
        for target, name, _ in found:
            private = name if name is not None else target.rpartition(".")[2]
            if private.startswith("_") and not private.startswith("__"):
                assert package in (target, target.rpartition(".")[0]), f"{module} imports {private} of {target}"


def test_imports_have_no_circle():
    """Raises CycleError, which names the modules, if two modules import each other when they are imported."""
    known = {*MODULES} - {PACKAGE}  # which registers the parts; they need nothing of it but its being there
    graph = {
        module: {target for target, _, at_once in found if at_once and target in known and target != module}
        for module, found in imports().items()
    }
    for name, file in MODULES.items():
        if file.name == "__init__.py":  # a package imports its parts, which may name the package's other parts
            graph[name] = {target for target in graph[name] if not target.startswith(name + ".")}
    assert list(TopologicalSorter(graph).static_order())
