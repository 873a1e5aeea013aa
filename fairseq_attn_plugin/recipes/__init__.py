"""Recipes: from a published corpus to trained models and their scores, a stage at a time.

    python -m fairseq_attn_plugin.recipes NAME [STAGE...|all] [--dry-run] [-- options of fairseq-train]

``scripts/recipes/NAME.sh`` runs the same in the environment of the checkout; its comment is the manual of the recipe.
Settings are environment variables. Every stage leaves a stamp with its settings, and a stage whose stamp agrees does
not run again.

``datasets/``
    one file per recipe: the corpus, its sizes, the options of the training
``translation/``, ``documents/``, ``election/``
    the stages of the three kinds of recipes
``text/``
    readers of published corpora, tokenisation, subword models
``settings``, ``commands``, ``stamps``, ``data_folder``, ``downloads``, ``training``
    what all of them share
"""
