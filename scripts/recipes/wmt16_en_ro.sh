#!/usr/bin/env bash
# fairseq-attn recipe wmt16_en_ro, in the active environment or in that of the checkout; --help shows the manual.
exec bash "$(dirname "${BASH_SOURCE[0]}")/_run.sh" wmt16_en_ro "$@"
