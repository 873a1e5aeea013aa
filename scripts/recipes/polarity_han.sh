#!/usr/bin/env bash
# fairseq-attn recipe polarity_han, in the active environment or in that of the checkout; --help shows the manual.
exec bash "$(dirname "${BASH_SOURCE[0]}")/_run.sh" polarity_han "$@"
