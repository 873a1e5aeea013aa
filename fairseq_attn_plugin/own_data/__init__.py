"""``fairseq-attn train``: from a user's own sentence pairs to a model folder.

``pairs`` reads and splits, ``settings`` chooses and checks the model, ``steps`` runs
fairseq's commands, ``progress`` shows the training, ``card`` describes the model.
"""
