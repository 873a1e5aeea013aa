"""Named architectures: a model class under a further name, with other defaults.

:func:`register_architecture` creates a configuration and a model class for each name. Both are attributes of this
module, where pickle finds them: ``lstm_soft`` has ``LstmSoft`` and ``LstmSoftConfig``.
"""

from dataclasses import field, make_dataclass
from typing import Any, Callable, Dict, Type

from fairseq.models import MODEL_REGISTRY, register_model


def sizes(units: int, dropout: float, **others: Any) -> Dict[str, Any]:
    """The options of two layers of encoder and decoder, and so many units everywhere."""
    parts = ("embed_dim", "hidden_size")
    widths = [*(f"{side}_{part}" for side in ("encoder", "decoder") for part in parts), "decoder_out_embed_dim"]
    layers = {"encoder_layers": 2, "decoder_layers": 2}
    return {"dropout": dropout, **dict.fromkeys(widths, units), **layers, **others}


# Charalampous and Chatzis, "Quantum Statistics-Inspired Neural Attention", section 4.3: 2-layer BiLSTM encoder, 2-layer
# LSTM decoder, 256 units everywhere, dropout 0.2.
PAPER_SIZES = sizes(256, 0.2, encoder_bidirectional=True)

# The models of that paper. Words are predicted from softmax(W [s; c] + b) (eq. 1), and the decoder starts from the
# encoder's last states. What the paper does not name, it takes from the TensorFlow seq2seq tutorial (Luong, Brevdo and
# Zhao 2017; section 4): the forget gates' bias starts at 1, and the score `general` has a trained gain.
# Other than eq. 2, the next step is fed [c; s].
PAPER_MODEL = {"output_layer": "linear", "forget_bias": 1.0, "attention_score_gain": True, **PAPER_SIZES}

# Kim et al. 2017, "Structured Attention Networks", section 4.2 and appendix: unidirectional LSTMs of 500 units, without
# input feeding.
STRUCTURED_SIZES = sizes(500, 0.3, input_feeding="none")

# 128 units everywhere, for small corpora: a CPU trains it in an hour. A tanh layer of 128 units before the vocabulary
# learns much more slowly than state and context side by side.
SMALL_ATTENTION = {"attention_score": "additive", "attention_hidden_dim": 128}
SMALL_SIZES = sizes(128, 0.2, encoder_bidirectional=True, output_layer="linear", **SMALL_ATTENTION)


def register_architecture(name: str, **defaults: Any) -> Callable[[Type[Any]], Type[Any]]:
    """Registers a model class under a further name, ``--arch NAME``, whose configuration has other defaults.

    Raises:
        ValueError: the name is taken (fairseq would return the earlier class silently)
    """
    if name in MODEL_REGISTRY:
        raise ValueError(f"the model {name!r} is registered already, by {MODEL_REGISTRY[name].__name__}")

    def register(cls: Type[Any]) -> Type[Any]:
        base = cls.base_config
        known: Dict[str, Any] = base.__dataclass_fields__
        fields = [
            (key, known[key].type, field(default=value, metadata=dict(known[key].metadata)))
            for key, value in defaults.items()
        ]
        title = "".join(part.title() for part in name.split("_"))
        config = make_dataclass(title + "Config", fields, bases=(base,), namespace={"__module__": __name__})
        # A subclass, because fairseq stores the dataclass on the model class.
        subclass = type(title, (cls,), {"__doc__": cls.__doc__, "__module__": __name__})
        globals().update({config.__name__: config, title: subclass})
        return register_model(name, dataclass=config)(subclass)

    return register
