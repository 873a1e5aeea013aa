"""``python -m fairseq_attn_plugin.toy_corpus --out FOLDER``."""

from .generation import main

if __name__ == "__main__":
    main()
