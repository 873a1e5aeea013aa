"""Opens a folder that ``fairseq-attn export`` wrote, and checks all that is in it. A part of it, beside translate.py.

Who wrote the folder may have made a mistake, or may mean harm. What is wrong is a ``ValueError`` of one line.
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


SETTINGS = {  # is a value right, and what would be
    "format": one_of(FORMAT),
    "beam": number(1, 10_000),
    "lenpen": number(-50, 50, float),
    "min_len": number(0, 10**6),
    "max_len": number(1, 10**6),
    "max_len_a": number(0, 1000, float),
    "max_len_b": number(0, 10**6, float),
    "max_source_positions": number(2, 10**6),
    "subwords": one_of("bpe", "sentencepiece", "none"),
    "bpe": one_of(None, *SUBWORD_FILES),
    "lowercase": one_of(True, False),
    "normalizer": one_of(None, "moses"),
    "tokenizer": (lambda x: x is None or {*x} >= {"dash_splits", "escape"}, "null, or have dash_splits and escape"),
    "languages": (lambda x: [type(one) for one in x] == [str, str], "two names"),
    "attention": (lambda x: x is None or type(x) is str, "null or a name"),
    "files": (lambda x: {*x} >= {*FILES} and {*map(type, x.values())} == {str}, "names and SHA-256 of all files"),
}
OPTIONS = {"--beam": SETTINGS["beam"], "--lenpen": SETTINGS["lenpen"], "--threads": number(0, 1000)}


def check(values, rules, where=""):
    """Raises ``ValueError`` for the first value that is not right."""
    for name, (right, what) in rules.items():
        try:
            wrong = not right(values[name])
        except (KeyError, TypeError, AttributeError):
            wrong = True
        if wrong:
            value = json.dumps(values[name], default=str)[:99] if name in values else "is missing"
            raise ValueError(f"{where}{name} {value}: must be {what}")


def package(name):
    """A module; its package may be missing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        name = name.partition(".")[0]
        raise ImportError(f"this model needs {name}: pip install {name.replace('_', '-')}") from None


def lines_of(content):
    return content.decode().rstrip("\n").split("\n")


def read(folder, name, digest=None):
    """The bytes of a file, if it is the one that was exported. A pipe or a device is not read: it may have no end."""
    path = os.path.join(folder, name)
    if os.path.basename(name) != name or not os.path.isfile(path):
        raise ValueError(f"{path}: is missing, or is no ordinary file; copy the whole folder again")
    with open(path, "rb") as stream:
        content = stream.read()
    if digest not in (None, hashlib.sha256(content).hexdigest()):
        raise ValueError(f"{path}: is not what was exported (SHA-256 in settings.json); copy the whole folder again")
    return content


def open_folder(folder):
    """The settings, and the bytes of every file by its name."""
    path, content = os.path.join(folder, "settings.json"), read(folder, "settings.json")
    try:
        settings = dict(json.loads(content).items())
    except (ValueError, AttributeError, RecursionError):
        raise ValueError(f"{path}: is damaged; copy the whole folder again") from None
    check(settings, SETTINGS, f"{path}: ")
    # a subword model that is not among the files is not the one that was exported
    digests = {SUBWORD_FILES.get(settings["bpe"], FILES[0]): "unknown", **settings["files"]}
    return settings, {name: read(folder, name, digest) for name, digest in digests.items()}


def open_graphs(folder, settings, files, threads):
    """The sessions of encoder and step; the graphs fit each other, the vocabularies and the settings."""
    package("onnxruntime")  # whose absence is no damage of a file
    sessions = []
    for name in FILES[:2]:
        path = os.path.join(folder, name)
        try:
            flaw = flaw_of(memoryview(files[name]))
            if not flaw:
                sessions.append(session(files[name], threads))
        except Exception as error:  # those of onnxruntime have no common class
            flaw = f"is damaged: {' '.join(str(error).split())}"
        if flaw:
            raise ValueError(f"{path}: {flaw}")
    source, target = (len(lines_of(files[name])) for name in FILES[2:])
    known, unknown = (_first_step(sessions, word) for word in (source - 1, source))
    words, named = known["log_probs"].shape[-1] if known else 0, settings["attention"]
    for right, what in (
        (known, f"source.txt: its {source} symbols, encoder.onnx and step.onnx do not fit each other"),
        (not unknown, f"source.txt: has {source} symbols, fewer than encoder.onnx reads"),
        (words == target, f"target.txt: has {target} symbols; step.onnx writes {words}"),
        ((named is None) != ("weights" in known), f"settings.json: attention {named}: is not that of step.onnx"),
    ):
        if not right:
            raise ValueError(f"{os.path.join(folder, what)}; export the model again")
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

    A loop has at most ``MOST_ROUNDS`` rounds, and no other loop within: :func:`.onnx_files.write_graphs` sees to it.
    """
    far = "has functions or data in other files, which no exported graph has"
    if any(True for _ in fields(model, 25)) or any(map(_reads_elsewhere, fields(model, 7))):
        return far
    rounds = [raw for tensor in fields(model, 7, 5) if ROUNDS in fields(tensor, 8) for raw in fields(tensor, 9)]
    few = bool(rounds) and all(int.from_bytes(raw, "little") <= MOST_ROUNDS for raw in rounds)
    bounds: set = set()  # names of the least of ROUNDS and another number
    for node in fields(model, 7, 1):
        kinds, bodies = [*fields(node, 4)], _bodies(node)
        if kinds == [b"Min"] and ROUNDS in fields(node, 1):
            bounds.update(map(bytes, fields(node, 2)))
        bounded = few and kinds == [b"Loop"] and bytes(next(fields(node, 1))) in bounds
        right = bounded or kinds == [b"If"] or not bodies
        for body in bodies:  # which grows
            if _reads_elsewhere(body):
                return far
            for inner in fields(body, 1):
                below = _bodies(inner)
                right &= not below or [*fields(inner, 4)] == [b"If"]
                bodies += below
        if not right:
            return f"has control flow ({bytes(kinds[-1]).decode()}) that may never end"
    return ""


def _reads_elsewhere(graph):
    """Whether the data of an initializer or of an attribute are in another file."""
    return any(True for path in ((5, 13), (1, 5, 5, 13)) for _ in fields(graph, *path))


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
