"""The leaderboard: systems x seeds x directions on one corpus, run by a queue of processes.

``systems``
    the systems by name: ``systems.yaml``, and a file of the user
``job``, ``results``
    one run: stages of the recipe of the corpus, and the JSON of its results
``queue``
    runs jobs in several processes, none of them twice
``run``
    the recipe with its settings
"""
