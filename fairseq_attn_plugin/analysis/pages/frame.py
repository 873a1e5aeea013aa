"""Renders a page from a template in ``templates/``, inside the frame that all pages share.

A page is one file that requests nothing from a network. Jinja2 escapes every value in a template. The page's
Content-Security-Policy blocks all outside sources and runs only the script that :func:`page` embeds, so markup in a
sentence remains text.
"""

import base64
import functools
import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from fairseq_attn_plugin.errors import OptionError

HERE = Path(__file__).parent


@functools.lru_cache(maxsize=None)
def templates() -> Environment:
    """The environment of all templates: it escapes every value and refuses undefined names."""
    return Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def read_asset(*names: str) -> Markup:
    """The style sheets or scripts ``names`` of ``assets/``, one after the other."""
    return Markup("".join((HERE / "assets" / name).read_text(encoding="utf-8") for name in names))


def page(
    template: str,
    title: str,
    style: str = "",
    script: str = "",
    data: Any = None,
    connect: bool = False,
    **values: Any,
) -> str:
    """A whole page, light or dark as the reader's system prefers.

    Args:
        template: file in ``templates/`` that extends ``frame.html``
        title: plain text
        style: CSS, added to that of all pages
        script: JavaScript, which runs after the body is loaded
        data: values for the script, as JSON in the element with id ``data``
        connect: the script may send requests to the server that served the page
        values: for the template

    Characters that UTF-8 cannot encode, such as those of an undecodable file name, become ``?``.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = "; ".join(
        [
            "default-src 'none'",
            "img-src data:",
            "style-src 'unsafe-inline'",
            f"script-src 'sha256-{digest}'" if script else "script-src 'none'",
            "connect-src 'self'" if connect else "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    source = templates().get_template(template)
    if data is not None:
        data = htmlsafe_json_dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text = source.render(
        title=title,
        policy=Markup(policy),
        style=read_asset("base.css") + Markup(style),
        script=Markup(script),
        data=data,
        **values,
    )
    return text.encode("utf-8", "replace").decode("utf-8")


def check_page(option: str, path: str) -> None:
    """Raises ``OptionError`` if the file of an option does not end as a page does."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise OptionError(f"{option} {path}: must end in .html")
