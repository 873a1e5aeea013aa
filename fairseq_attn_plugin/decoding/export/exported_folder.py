"""Opens a folder that ``fairseq-attn export`` wrote, and checks what is in it. A part of it, beside translate.py.

Nothing in a folder runs code. What is wrong is a ``ValueError`` of one line.
"""

import hashlib
import importlib
import json
import os

import numpy as np

FORMAT = "fairseq_attn_plugin translator 1"
EOS = 2
FILES = ("encoder.onnx", "step.onnx", "source.txt", "target.txt")
SUBWORD_FILES = {"subword_nmt": "bpe.codes", "sentencepiece": "sentencepiece.model"}
ROUNDS, MOST_ROUNDS = b"most_rounds", 10**5  # a number in a graph that bounds its loops, and how great it may be


def number(least, most, *kinds):
    what = f"a {'' if kinds else 'whole '}number from {least} to {most}"
    return lambda x: isinstance(x, (int, *kinds)) and not isinstance(x, bool) and least <= x <= most, what


def one_of(*values):
    return lambda x: x in values, " or ".join(map(json.dumps, values))


RULES = {  # of settings: is a value right, and what would be
    "beam": number(1, 10_000),
    "lenpen": number(-10, 10, float),
    "min_len": number(0, 10**6),
    "max_len": number(1, 10**6),
    "max_len_a": number(0, 1000, float),
    "max_len_b": number(0, 10**6, float),
    "max_source_positions": number(2, 10**6),
    "subwords": one_of("bpe", "sentencepiece", "none"),
    "bpe": one_of(None, *SUBWORD_FILES),
    "lowercase": one_of(False, True),
    "normalizer": one_of(None, "moses"),
    "tokenizer": (lambda x: x is None or isinstance(x, dict) and {*x} >= {"dash_splits", "escape"}, "null or of Moses"),
    "languages": (lambda x: isinstance(x, list) and [*map(type, x)] == [str, str], "two languages"),
    "attention": (lambda x: x is None or isinstance(x, str), "null or a name"),
}
OPTIONS = {"--beam": RULES["beam"], "--lenpen": RULES["lenpen"], "--threads": number(0, 1000)}
# Fields of a graph that are tensors, whose data may be in other files: initializers, and attributes of nodes, both also
# as the values and indices of sparse ones.
TENSORS = ((5,), (15, 1), (15, 2), *((1, 5, *of) for of in ((5,), (10,), (22, 1), (22, 2), (23, 1), (23, 2))))


def check(values, rules, where=""):
    """Raises ``ValueError`` for the first value that is not right."""
    for name, (right, what) in rules.items():
        if not right(values[name]):
            raise ValueError(f"{where}{name} {json.dumps(values[name])}: must be {what}")


def package(name):
    """A module; its package may be missing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        name = name.partition(".")[0]
        raise ImportError(f"this model needs {name}: pip install {name.replace('_', '-')}") from None


def lines_of(content):
    return content.decode().rstrip("\n").split("\n")


def read(folder, name):
    """The bytes of a file of the folder."""
    path = os.path.join(folder, name)
    if os.path.basename(name) != name or not os.path.isfile(path):
        raise ValueError(f"{path}: is missing; copy the whole folder again")
    with open(path, "rb") as stream:
        return stream.read()


def open_folder(folder):
    """The settings, and the bytes of every file by its name, if they are those that were exported."""
    path, content = os.path.join(folder, "settings.json"), read(folder, "settings.json")
    try:
        settings = json.loads(content)
        subwords = [SUBWORD_FILES[settings["bpe"]]] if settings["bpe"] else []
        whole = settings["format"] == FORMAT and {*settings} >= {*RULES}
        whole = whole and settings["files"].keys() >= {*FILES, *subwords}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        whole = False
    if not whole:
        raise ValueError(f"{path}: is damaged, or of another program; copy the whole folder again")
    check(settings, RULES, f"{path}: ")
    files = {name: read(folder, name) for name in settings["files"]}
    for name, digest in settings["files"].items():
        if hashlib.sha256(files[name]).hexdigest() != digest:
            path = os.path.join(folder, name)
            raise ValueError(
                f"{path}: is not what was exported (SHA-256 in settings.json); copy the whole folder again"
            )
    return settings, files


def open_graphs(folder, settings, files, threads):
    """The sessions of encoder and step; the graphs fit each other, the vocabularies and the settings."""
    package("onnxruntime")  # whose absence is no damage of a file
    sessions = []
    for name in FILES[:2]:
        try:
            flaw = flaw_of(memoryview(files[name]))
            if not flaw:
                sessions.append(session(files[name], threads))
        except Exception as error:  # those of onnxruntime have no common class
            flaw = f"is damaged: {' '.join(str(error).split())}"
        if flaw:
            raise ValueError(f"{os.path.join(folder, name)}: {flaw}")
    source, target = (len(lines_of(files[name])) for name in FILES[2:])
    out = _first_step(sessions, source - 1)
    fits = out and out["log_probs"].shape[-1] == target and (settings["attention"] is None) != ("weights" in out)
    if not fits or _first_step(sessions, source):
        raise ValueError(
            f"{folder}: encoder.onnx, step.onnx, source.txt ({source} symbols), target.txt ({target} symbols) and the "
            f"attention in settings.json ({settings['attention']}) do not fit each other; export the model again"
        )
    return sessions


def _first_step(sessions, word):
    """The outputs of the first step for a sentence of one word; empty if the graphs do not run."""
    tensors = {"source": np.array([[word, EOS]]), "words": np.array([[EOS]])}
    try:
        tensors.update(run(sessions[0], tensors), position=np.array([0]), candidates=np.array([1]))
        out = run(sessions[1], tensors)
    except Exception:  # those of onnxruntime have no common class
        return {}
    state = {name[5:]: x.shape for name, x in tensors.items() if name.startswith("state")}
    fits = state == {name[4:]: x.shape for name, x in out.items() if name.startswith("next")}
    return out if fits and {"log_probs", "best_log_probs", "best_words"} <= {*out} else {}


def session(graph, threads=1):
    """The bytes of a graph as onnxruntime runs it."""
    onnxruntime = package("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4  # its exceptions say what it would log
    options.add_session_config_entry("session.load_model_format", "ONNX")
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def run(session, tensors, wanted=None):
    """The outputs of a graph by their names, those ``wanted`` or all; its inputs are among ``tensors``."""
    wanted = wanted or [x.name for x in session.get_outputs()]
    return dict(zip(wanted, session.run(wanted, {x.name: tensors[x.name] for x in session.get_inputs()})))


def follow(tensors, out, rows):
    """Sets the states among ``tensors`` to those after a step, of the hypotheses ``rows`` ``[B, K]`` of all sentences
    together, which go on."""
    for name in filter(lambda name: name.startswith("next"), out):
        below = out[name].shape[2:]
        tensors["state" + name[4:]] = out[name].reshape(-1, *below)[rows.ravel()].reshape(*rows.shape, *below)


def flaw_of(model):
    """What no exported graph has, or an empty text: functions, files elsewhere, and loops that may never end.

    A loop has at most ``MOST_ROUNDS`` rounds, and no other loop within: :func:`.onnx_graphs.bound_loops` sees to it.
    """
    graphs = [*fields(model, 7)]
    kinds: list = []  # of nodes with graphs within
    for graph in graphs:  # which grows by those within nodes
        for node in fields(graph, 1):
            graphs += _bodies(node)
            kinds += fields(node, 4) if _bodies(node) else []
        if any(True for path in TENSORS for _ in fields(graph, *path, 13)):
            return "has data in other files, which no exported graph has"
    if any(True for _ in fields(model, 25)):
        return "has functions, which no exported graph has"
    most = [raw for tensor in fields(model, 7, 5) if ROUNDS in fields(tensor, 8) for raw in fields(tensor, 9)]
    few = bool(most) and all(int.from_bytes(raw, "little") <= MOST_ROUNDS for raw in most)
    bounds: set = set()  # names of the least of ROUNDS and another number
    bounded = 0  # loops of so many rounds
    for node in fields(model, 7, 1):
        kind = [*fields(node, 4)]
        if kind == [b"Min"] and few and ROUNDS in fields(node, 1):
            bounds.update(map(bytes, fields(node, 2)))
        bounded += kind == [b"Loop"] and bool(_bodies(node)) and bytes(next(fields(node, 1))) in bounds
    return "has a loop that may never end" if sum(kind != b"If" for kind in kinds) > bounded else ""


def _bodies(node):
    """The graphs within a node."""
    return [*fields(node, 5, 6), *fields(node, 5, 11)]


def fields(message, number, *below):
    """The contents of the fields ``number`` of a protobuf message, or of the fields ``below`` in them."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        key &= 2**32 - 1  # as protobuf reads it
        size = {0: 0, 1: 8, 5: 4}.get(key & 7)
        if key & 7 in (0, 2):
            value, place = _varint(message, place)
            size = value if size is None else 0
        if size is None:
            raise ValueError("no protobuf message")
        part, place = message[place : place + size], place + size
        if key >> 3 == number and key & 7 == 2:
            yield from fields(part, *below) if below else [part]


def _varint(message, place):
    value = 0
    for shift in range(0, 70, 7):
        value |= (message[place] & 127) << shift
        place += 1
        if message[place - 1] < 128:
            return value, place
    raise ValueError("no protobuf message")
