"""Packaging of fairseq_attn_plugin.

fairseq must be built against the installed torch and numpy (``--no-build-isolation``). A plain ``pip install .`` in an
empty environment fails or installs a second torch. ``scripts/setup.sh`` installs everything in the right order.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).resolve().parent
VERSION = re.search(r'__version__ = "([^"]+)"', (HERE / "fairseq_attn_plugin" / "__init__.py").read_text()).group(1)
README = HERE / "README.md"

COMMAND_NAMES = ("fairseq-attn", "attn-analysis")  # the second is the old name

setup(
    name="fairseq_attn_plugin",
    version=VERSION,
    description="LSTM sequence-to-sequence models for fairseq in which the attention mechanism varies",
    author="The fairseq_attn_plugin authors",
    license="MIT",
    license_files=["LICENSE"],
    long_description=README.read_text(encoding="utf-8") if README.exists() else "",
    long_description_content_type="text/markdown",
    packages=find_packages(include=["fairseq_attn_plugin", "fairseq_attn_plugin.*"]),
    entry_points={"console_scripts": [f"{name} = fairseq_attn_plugin.analysis.cli:main" for name in COMMAND_NAMES]},
    package_data={
        "fairseq_attn_plugin": [
            "py.typed",
            "analysis/pages/assets/*",
            "analysis/pages/templates/*",
            "recipes/leaderboard/*.yaml",
        ]
    },
    python_requires=">=3.8",
    install_requires=[
        # fairseq 0.12.2 can be installed on Python 3.11, but its import fails
        "fairseq-fixed>=0.12.3; python_version >= '3.11'",
        "fairseq>=0.12.2,<0.13; python_version < '3.11'",
        "torch>=1.13",
        "numpy",
        "entmax>=1.1",
        "jinja2>=3",
        "portalocker>=2.8",
        "sacrebleu>=2.0",
        "sacremoses",
        "sentencepiece",
        "shtab>=1.6",  # completion of attn-analysis in a shell
        "subword-nmt>=0.3.7",
        "tabulate>=0.9",
        "tqdm",
    ],
    extras_require={
        # tensorboard: fairseq's --tensorboard-logdir, and the curves of its files
        # scikit-learn: word vectors made from sentence pairs
        "analysis": ["matplotlib>=3.5", "tensorboard", "scikit-learn"],
        # attn-analysis export; its folders need numpy and onnxruntime alone, neither this package nor torch
        "export": ["onnx>=1.15", "onnxruntime>=1.17"],
        "runtime": ["onnxruntime>=1.17", "numpy"],
        # attn-analysis serve
        "serve": ["fastapi>=0.100", "uvicorn"],
        # scripts/docs.sh; latex2mathml: formulas that need no script and no network
        "docs": ["sphinx>=7", "furo", "myst-nb>=1.0", "latex2mathml>=3.76", "nbclient", "nbformat", "ipykernel"],
        "dev": [
            "pytest>=7",
            "pytest-timeout>=2.1",
            "pytest-xdist",
            "hypothesis>=6.100",
            "ruff",
            "mypy",
            "httpx",  # client for the tests of attn-analysis serve
            "selenium>=4.11",  # opens the pages of attn-analysis in Chromium, if it is installed
            "torch-struct==0.5",  # a second oracle for structured attention
            # the SLURM launcher of configs/; launchers before 1.2 need hydra 1.0
            "hydra-submitit-launcher>=1.2; python_version >= '3.11'",
        ],
    },
    classifiers=[
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
