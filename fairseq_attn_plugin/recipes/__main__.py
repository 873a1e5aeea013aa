"""``python -m fairseq_attn_plugin.recipes``."""

import sys

from .cli import main

sys.exit(main())
