"""Recipes: from a published corpus to trained models and their scores, in stages.

    fairseq-attn recipe NAME [STAGE...|all] [--dry-run] [-- options of fairseq-train]

``python -m fairseq_attn_plugin.recipes`` and ``scripts/recipes/NAME.sh`` of the checkout run the same. The manual of a
recipe is ``manuals/NAME.txt``.

Settings are environment variables. A finished stage writes a stamp with its settings and does not run again with the
same settings.

``datasets/``
    one file per recipe: the corpus, its sizes, the options of the training
``translation/``, ``documents/``, ``election/``
    the stages of the three kinds of recipes
``leaderboard/``
    many systems and seeds of one recipe of translation, by a queue of processes
``text/``
    readers of published corpora, tokenisation, subword models
``settings``, ``commands``, ``stamps``, ``data_folder``, ``downloads``, ``training``
    shared by all recipes
"""
