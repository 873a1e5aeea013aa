"""Configuration of the documentation: ``bash scripts/docs.sh`` builds it into docs/_build/html."""

import logging
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "_extensions"), str(HERE.parent)]

from fairseq_attn_plugin import __version__  # noqa: E402

# fairseq lets every logger speak; the Markdown parser would report each rule that it tries
logging.getLogger("markdown_it").setLevel(logging.WARNING)

project = "fairseq_attn_plugin"
author = "The fairseq_attn_plugin authors"
project_copyright = "2026, " + author
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "myst_nb",
    "files_outside",
    "mathml",
    "docstrings",
    "api_pages",
    "option_tables",
    "listings",
]
exclude_patterns = ["_build", "_extensions", "examples"]

html_theme = "furo"
html_title = "fairseq_attn_plugin " + version
html_show_sphinx = False
html_copy_source = False
# fonts and scripts of other sites are left out: the pages are read without a network
html_static_path = ["_static"]
html_css_files = ["wide-tables.css"]

myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_links_external_new_tab = False
nb_execution_mode = "off"  # the notebook is shown with its stored outputs; a test executes it

default_role = "code"
smartquotes = False  # two hyphens are the start of an option
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
nitpicky = True
