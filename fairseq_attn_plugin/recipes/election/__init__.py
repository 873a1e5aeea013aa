"""The recipe of election attention: a teacher, its election, the agent, and the students.

Layout under OUT::

    SRC-TGT.PAIRS.BPE/data/               as in the recipes of translation
    SRC-TGT.PAIRS.BPE/SYSTEM.seedSEED/    checkpoints, train.log, beamBEAM/ with translations and scores
    SRC-TGT.PAIRS.BPE/teacher.seedSEED/   also election.json and offsets.png
    SRC-TGT.PAIRS.BPE/agent.seedSEED/     words.json, rewards.png
    SRC-TGT.PAIRS.BPE/table.seedSEED.md
"""
