#!/usr/bin/env python3
"""Writes one direction of an agreement model as an ordinary checkpoint.

    python scripts/export_direction.py checkpoint_best.pt --direction en-de --out en-de.pt [--force]

See :mod:`fairseq_attn_plugin.export`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fairseq_attn_plugin.export import main

if __name__ == "__main__":
    main()
