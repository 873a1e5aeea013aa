"""Option tables that are made from the registries, so that they cannot be out of date.

``{option-tables} KIND``, KIND one of ``attention``, ``models``, ``criterions``, ``optimizers``, ``lr_schedulers``,
``tasks``: a section with a table for each thing of that kind that the package registers. ``{architectures}``: the named
models and what they set.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, Field, fields
from typing import Any, Callable, Dict, Iterable, List, Tuple

from docutils import nodes
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from fairseq.optim import OPTIMIZER_DATACLASS_REGISTRY, OPTIMIZER_REGISTRY
from fairseq.optim.lr_scheduler import LR_SCHEDULER_DATACLASS_REGISTRY, LR_SCHEDULER_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from fairseq_attn_plugin import attention
from fairseq_attn_plugin.options import flag

PACKAGE = "fairseq_attn_plugin"
Row = Tuple[str, str, str]  # flag, default, help


def own(registry: Dict[str, Any]) -> Dict[str, Any]:
    """The entries of a fairseq registry whose class is the package's."""
    return {name: cls for name, cls in sorted(registry.items()) if cls.__module__.split(".")[0] == PACKAGE}


def default_of(item: Field[Any]) -> Any:
    return item.default_factory() if item.default_factory is not MISSING else item.default


def shown(value: Any) -> str:
    if value is None or value is MISSING or value == "":
        return ""
    interpolated = re.fullmatch(r"\$\{(.+)\}", str(value))
    return "that of " + flag(interpolated.group(1).split(".")[-1]) if interpolated else str(value)


def row(name: str, item: Field[Any]) -> Row:
    text = str(item.metadata.get("help") or "")
    # the default has a column of its own
    text = re.sub(r"\s*\(default: ([^()]*)\)$", lambda found: _without_default(found, default_of(item)), text)
    return flag(name), shown(default_of(item)), text


def _without_default(found: re.Match[str], default: Any) -> str:
    """Nothing where the help repeats the default only, else the help's own words."""
    return "" if found.group(1) == str(default) else found.group(0)


def rows_of(cls: Any, without: Iterable[str] = ()) -> List[Row]:
    return [row(item.name, item) for item in fields(cls) if item.name not in ("_name", *without)]


def code(text: str) -> nodes.paragraph:
    return nodes.paragraph("", "", nodes.literal(text, text)) if text else nodes.paragraph()


def table(head: Iterable[str], rows: Iterable[Iterable[nodes.Node]], widths: Iterable[int]) -> nodes.table:
    """A table of docutils from cells."""
    widths = list(widths)
    group = nodes.tgroup(cols=len(widths))
    group += [nodes.colspec(colwidth=width) for width in widths]

    def line(cells: Iterable[nodes.Node]) -> nodes.row:
        return nodes.row("", *[nodes.entry("", cell) for cell in cells])

    group += nodes.thead("", line(nodes.paragraph("", text) for text in head))
    group += nodes.tbody("", *[line(cells) for cells in rows])
    return nodes.table("", group)


def option_table(rows: Iterable[Row]) -> nodes.table:
    cells = [(code(name), code(default), nodes.paragraph("", text)) for name, default, text in rows]
    return table(("option", "default", "meaning"), cells, (28, 14, 58))


def section(name: str, kind: str, title: str = "") -> nodes.section:
    """A section with a title in words; without one, the title is the name as code."""
    made = nodes.section(ids=[f"{kind}-{nodes.make_id(name)}"], names=[f"{kind} {name}"])
    made += nodes.title("", title) if title else nodes.title("", "", nodes.literal(name, name))
    return made


class OptionTablesDirective(SphinxDirective):
    required_arguments = 1

    def run(self) -> List[nodes.Node]:
        kinds: Dict[str, Callable[[], List[nodes.Node]]] = {
            "attention": self.mechanisms,
            "models": self.models,
            "criterions": lambda: self.registered("criterion", CRITERION_REGISTRY, CRITERION_DATACLASS_REGISTRY),
            "optimizers": lambda: self.registered("optimizer", OPTIMIZER_REGISTRY, OPTIMIZER_DATACLASS_REGISTRY),
            "lr_schedulers": lambda: self.registered(
                "lr-scheduler", LR_SCHEDULER_REGISTRY, LR_SCHEDULER_DATACLASS_REGISTRY
            ),
            "tasks": lambda: self.registered("task", TASK_REGISTRY, TASK_DATACLASS_REGISTRY),
        }
        if self.arguments[0] not in kinds:
            raise self.error(f"unknown kind {self.arguments[0]}; choose from {', '.join(kinds)}")
        return kinds[self.arguments[0]]()

    def mechanisms(self) -> List[nodes.Node]:
        """Options that all mechanisms share come first, then those of each mechanism."""
        shared = attention.options_of(attention.AttentionConfig)
        common = section("attention-", "options", "Options of every mechanism")
        common += option_table(row(option.name, option.field) for option in shared.values())
        result: List[nodes.Node] = [common]
        for _, parts in attention.PARTS:
            for name in parts.names():
                cls = parts.find(name)
                own_options = attention.options_of(cls.Config).values()
                if cls.__module__.split(".")[0] == PACKAGE and own_options:
                    made = section(name, parts.kind, f"{parts.option} {name}")
                    made += option_table(row(option.name, option.field) for option in own_options)
                    result.append(made)
        for name in attention.names():
            cls = attention.attention_class(name)
            if cls.__module__.split(".")[0] != PACKAGE:
                continue
            made = section(name, "attention")
            extra = [option for full, option in attention.options_of(cls.Config).items() if full not in shared]
            if extra:
                made += option_table(row(option.name, option.field) for option in extra)
            else:
                made += nodes.paragraph("", "Has the options of every mechanism.")
            result.append(made)
        return result

    def models(self) -> List[nodes.Node]:
        """The models that are not another one under a further name."""
        result: List[nodes.Node] = []
        for name in own(MODEL_REGISTRY):
            if base_name(name) != name:
                continue
            made = section(name, "model")
            made += option_table(rows_of(MODEL_DATACLASS_REGISTRY[name], attention.options()))
            result.append(made)
        return result

    def registered(self, kind: str, registry: Dict[str, Any], dataclasses: Dict[str, Any]) -> List[nodes.Node]:
        result: List[nodes.Node] = []
        for name in own(registry):
            made = section(name, kind)
            made += option_table(rows_of(dataclasses[name]))
            result.append(made)
        return result


def base_name(name: str) -> str:
    """The registered model that ``name`` is a further name of, or ``name``."""
    cls = MODEL_REGISTRY[name]
    for parent in cls.__mro__[1:]:
        found = [other for other, candidate in own(MODEL_REGISTRY).items() if candidate is parent]
        same_options = found and {item.name for item in fields(MODEL_DATACLASS_REGISTRY[found[0]])} == {
            item.name for item in fields(MODEL_DATACLASS_REGISTRY[name])
        }
        if same_options:
            return base_name(found[0])
    return name


class ArchitecturesDirective(SphinxDirective):
    def run(self) -> List[nodes.Node]:
        rows = []
        for name in own(MODEL_REGISTRY):
            base = base_name(name)
            if base == name:
                continue
            defaults = {item.name: default_of(item) for item in fields(MODEL_DATACLASS_REGISTRY[base])}
            changed = [
                f"{flag(item.name)} {default_of(item)}" if default_of(item) is not True else flag(item.name)
                for item in fields(MODEL_DATACLASS_REGISTRY[name])
                if item.name != "_name" and default_of(item) != defaults[item.name]
            ]
            rows.append((code(name), code(base), code(" ".join(changed))))
        return [table(("--arch", "is", "with"), rows, (20, 20, 60))]


def setup(app: Sphinx) -> Dict[str, Any]:
    app.add_directive("option-tables", OptionTablesDirective)
    app.add_directive("architectures", ArchitecturesDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
