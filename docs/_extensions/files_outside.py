"""Links to Markdown files outside of docs: the file is copied into the site, as files of other kinds are.

MyST takes a link to a ``.md`` file for a link to a page, and the benchmark's tables are no pages of the site.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Optional

from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class LinkFilesOutside(SphinxTransform):
    default_priority = 500

    def apply(self, **kwargs: Any) -> None:
        for link in list(self.document.findall(addnodes.pending_xref)):
            path = self.outside(link)
            if path is None:
                continue
            # the target is relative to the page, as in the source
            target = Path(*[".."] * self.env.docname.count("/"), "..", path.relative_to(self.root))
            content = [child.deepcopy() for child in link.children]
            link.replace_self(addnodes.download_reference("", "", *content, reftarget=target.as_posix()))

    @property
    def root(self) -> Path:
        return Path(self.env.srcdir).resolve().parent

    def outside(self, link: addnodes.pending_xref) -> Optional[Path]:
        """The existing file of the checkout that ``link`` names, if it lies outside of docs."""
        if link.get("refdomain") != "doc":
            return None
        named = str(link["reftarget"])
        for path in (Path(self.env.srcdir, named + ".md"), Path(named + ".md")):
            path = path.resolve()
            inside = Path(self.env.srcdir).resolve() in path.parents
            if path.is_file() and not inside and self.root in path.parents:
                return path
        return None


def setup(app: Sphinx) -> Dict[str, Any]:
    app.add_transform(LinkFilesOutside)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
