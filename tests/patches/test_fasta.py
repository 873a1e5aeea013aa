"""FASTA files: the index, and names that a shell would run."""

import ast
from pathlib import Path

import fairseq
import pytest
from fairseq.data import Dictionary, data_utils
from fairseq.data.fasta_dataset import EncodedFastaDataset, FastaDataset

SEQUENCES = [("> first", ["ACGT", "AC"]), (">second", ["GG"]), (">third", ["TTTTTTTT", "A", "C"])]


def write(path: Path) -> None:
    path.write_text("".join(f"{name}\n" + "".join(f"{line}\n" for line in lines) for name, lines in SEQUENCES))


def test_index(tmp_path: Path) -> None:
    write(tmp_path / "test.fasta")
    dataset = FastaDataset(str(tmp_path / "test"))
    assert [dataset[i] for i in range(len(dataset))] == [(name, "".join(lines)) for name, lines in SEQUENCES]
    assert dataset.sizes.tolist() == [6, 2, 10]
    dictionary = Dictionary()
    for symbol in "ACGT":
        dictionary.add_symbol(symbol)
    for _ in range(2):  # the second time from the index that the first has written
        encoded = EncodedFastaDataset(str(tmp_path / "test"), dictionary)
        assert encoded.sizes.tolist() == [6, 2, 10] and len(encoded[2]) == 11  # with the end


def test_the_names_of_a_data_folder_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task multilingual_masked_lm reads each folder inside the data folder."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data" / "$(touch executed)"
    folder.mkdir(parents=True)
    write(folder / "test.fasta")
    dataset = data_utils.load_indexed_dataset(str(folder / "test"), Dictionary())
    assert isinstance(dataset, EncodedFastaDataset) and len(dataset) == 3
    assert not (tmp_path / "executed").exists()


def test_nothing_else_in_fairseq_starts_a_shell() -> None:
    starting = set()
    for path in Path(fairseq.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())) if "examples" not in path.parts else ():
            if isinstance(node, ast.Call):
                shell = any(keyword.arg == "shell" for keyword in node.keywords)
                if shell or ast.unparse(node.func) in ("os.system", "os.popen"):
                    starting.add(path.name)
    assert starting == {"fasta_dataset.py"}
