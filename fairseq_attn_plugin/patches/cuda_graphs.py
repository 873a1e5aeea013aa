"""Training steps as CUDA graphs (``--cuda-graphs``).

A step of a recurrent decoder is a thousand small kernels, and a GPU works through them faster than Python launches
them. A graph holds all kernels of a forward and a backward pass, and one call launches it. It has the shapes of one
batch. Stock's ``--num-batch-buckets`` makes trainings have few shapes, each of which is captured when it comes for the
second time (``torch.cuda.make_graphed_callables``); other batches run as without the option. What follows the backward
pass, such as clipping, scaling and the optimizer, is not part of a graph.

The numbers that a graph holds are those of its capture. It therefore has the number of words as a tensor, and only
criterions whose loss does not depend on the number of updates are captured.
"""

import logging
import warnings
from collections import Counter
from functools import partial
from typing import Any, Callable, Dict, Hashable, List, Optional, Tuple

import torch
from torch import Tensor, nn

from ..errors import first_cause
from ..ops.devices import end_capture, on_gpu
from ..ops.pairs.pair_pooling import compiling
from .wrapping import Patch, around

logger = logging.getLogger(__name__)

MOST_GRAPHS = 100  # of different shapes; each keeps the gradients of all parameters
WORDS = ("ntokens", "sample_size")  # what criterions log as numbers of the batch

Path = Tuple[str, ...]


@around
def _graphing(
    train_step: Callable[..., Any],
    self: Any,
    sample: Any,
    model: Any,
    criterion: Any,
    optimizer: Any,
    update_num: int,
    ignore_grad: bool = False,
) -> Any:
    if ignore_grad or not getattr(model, "cuda_graphs", False):
        return train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad)
    if "graphed_steps" not in vars(criterion):
        criterion.graphed_steps = GraphedSteps(criterion)
    result = train_step(self, sample, model, criterion.graphed_steps, optimizer, update_num)
    part_gradients(model)
    return result


class GraphedSteps:
    """A criterion whose forward and backward passes are replayed, for batches of a shape that it has seen before."""

    def __init__(self, criterion: Any):
        self.criterion = criterion
        self.graphs: Dict[Hashable, _Graph] = {}  # by shape of batch
        self.seen: Counter[Hashable] = Counter()  # how often each shape has come
        self.full = False  # whether no more graphs are made
        self.off = False  # whether graphs are not even replayed
        self.pool: Any = None  # memory of all graphs, none of which runs beside another

    def __call__(self, model: Any, sample: Dict[str, Any]) -> Any:
        # fairseq's search for the module that has made a NaN watches, by hooks, what modules return
        plain = self.off or any(module._forward_hooks for module in model.modules())
        shape = None if plain else shape_of(sample)
        graph = self.graphs.get(shape)
        if graph is None:
            if shape is None or not self._wanted(model, sample, shape):
                return self.criterion(model, sample)
            try:
                graph = _Graph(self.criterion, model, sample, self)
            except (RuntimeError, AssertionError) as problem:
                self._warn(f"a training step cannot be captured ({first_cause(problem)})")
                end_capture()
                return self.criterion(model, sample)
            if not self.graphs:
                logger.info("--cuda-graphs: the training step of a shape of batches is captured")
            self.graphs[shape] = graph
        own_gradients(model)
        return graph(sample)

    def _wanted(self, model: Any, sample: Dict[str, Any], shape: Hashable) -> bool:
        """Whether to capture a batch of this shape now."""
        # not before the patches are installed, which explain the mistakes in the options of models
        from fairseq.criterions.cross_entropy import CrossEntropyCriterion
        from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion

        from fairseq_attn_plugin.modules.encoders.encoder import LSTMEncoder

        reason = ""
        if not on_gpu(sample["target"]):
            reason = "there is no GPU"
        elif hasattr(model, "module"):
            reason = "a training in several processes cannot be captured"
        elif type(self.criterion) not in (CrossEntropyCriterion, LabelSmoothedCrossEntropyCriterion):
            reason = "it needs --criterion cross_entropy or label_smoothed_cross_entropy"
        elif getattr(self.criterion, "report_accuracy", False):
            reason = "--report-accuracy cannot be captured"
        elif not isinstance(model.encoder, LSTMEncoder):
            reason = "an encoder by --encoder-arch cannot be captured"
        elif getattr(getattr(model.decoder.attention, "config", None), "trained", False):
            reason = "--gaussian-trained cannot be captured"
        if reason:
            self._warn(reason)
            return False
        self.seen[shape] += 1
        if len(self.graphs) == MOST_GRAPHS and not self.full:
            self.full = True
            logger.warning(
                f"--cuda-graphs: batches of {MOST_GRAPHS} shapes are captured, others run without a graph; "
                "--num-batch-buckets makes shapes few"
            )
        return self.seen[shape] > 1 and not self.full

    def _warn(self, reason: str) -> None:
        self.off, self.pool = True, None
        self.graphs.clear()
        logger.warning(f"--cuda-graphs: {reason}; the training goes on without graphs")


def shape_of(sample: Dict[str, Any]) -> Optional[Hashable]:
    """What a graph of a batch depends on besides tensors; None for batches with something else than numbers in them."""
    parts: List[Hashable] = []
    for path, value in _leaves(sample):
        if isinstance(value, Tensor):
            value = (tuple(value.shape), value.dtype)
        elif not (value is None or isinstance(value, (int, float, str))):
            return None
        parts.append((path, value))
    return tuple(parts)


def _leaves(sample: Dict[str, Any], above: Path = ()) -> List[Tuple[Path, Any]]:
    """All of a batch but its number of words, by its path."""
    found: List[Tuple[Path, Any]] = []
    for name, value in sample.items():
        if isinstance(value, dict):
            found += _leaves(value, (*above, name))
        elif name != "ntokens":
            found.append(((*above, name), value))
    return found


def own_gradients(model: nn.Module) -> None:
    """Copies gradients of an earlier batch of the same update, which may be memory that a graph writes to."""
    held = [parameter for parameter in model.parameters() if parameter.grad is not None]
    if held:
        copies = [torch.empty_like(parameter.grad) for parameter in held]
        torch._foreach_copy_(copies, [parameter.grad for parameter in held])
        for parameter, copy in zip(held, copies):
            parameter.grad = copy


def part_gradients(model: nn.Module) -> None:
    """Copies gradients that share memory: a graph has one for parameters that are only added, as the biases of an LSTM.
    Clipping and the next batch would change it once for each."""
    places = set()
    for parameter in model.parameters():
        if parameter.grad is not None:
            if parameter.grad.data_ptr() in places:
                parameter.grad = parameter.grad.clone()
            places.add(parameter.grad.data_ptr())


class _Graph:
    """The step of one shape: takes a batch, returns what the criterion returns."""

    def __init__(self, criterion: Any, model: Any, sample: Dict[str, Any], steps: GraphedSteps):
        self.module = _Step(criterion, model, sample)
        if steps.pool is None:
            steps.pool = torch.cuda.graph_pool_handle()
        tensors = tuple(tensor.clone() for tensor in self.module.tensors_of(sample))
        plain = torch.cuda.graph
        # fairseq's loader pins memory in another thread, which a capture would forbid by default
        torch.cuda.graph = partial(plain, capture_error_mode="thread_local")  # type: ignore[assignment, misc]
        try:
            # the forward pass has its own autocast, the backward pass has none
            with torch.autocast("cuda", enabled=False), compiling(), warnings.catch_warnings():
                # gradients that an earlier batch has left were accumulated on another stream, which is as it should be
                warnings.filterwarnings("ignore", "The AccumulateGrad node's stream")
                self.run = torch.cuda.make_graphed_callables(
                    self.module, tensors, allow_unused_input=True, pool=steps.pool
                )
        finally:
            torch.cuda.graph = plain  # type: ignore[misc]

    def __call__(self, sample: Dict[str, Any]) -> Any:
        loss, *values = self.run(*self.module.tensors_of(sample))
        logged = dict(self.module.logged)
        logged.update(zip(self.module.names, (value.detach().clone() for value in values)))
        size = sample["ntokens"] if self.module.size is None else self.module.size
        for name, number in zip(WORDS, (sample["ntokens"], size)):
            if name in logged:
                logged[name] = number
        return loss, size, logged


class _Step(nn.Module):
    """The criterion of a model as a function from tensors to tensors."""

    def __init__(self, criterion: Any, model: Any, sample: Dict[str, Any]):
        super().__init__()
        self.model, self.criterion = model, criterion
        self.paths = [path for path, value in _leaves(sample) if isinstance(value, Tensor)]
        self.others = [(path, value) for path, value in _leaves(sample) if not isinstance(value, Tensor)]
        self.logged: Dict[str, Any] = {}  # by the criterion, with its order and its plain numbers
        self.names: List[str] = []  # of the tensors among them
        self.size: Optional[int] = None  # the sample size; None where it is the number of words
        self.autocast = torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype()

    def tensors_of(self, sample: Dict[str, Any]) -> Tuple[Tensor, ...]:
        """The number of words, and the tensors of a batch."""
        found = dict(_leaves(sample))
        device = sample["target"].device
        return (torch.full((), float(sample["ntokens"]), device=device), *(found[path] for path in self.paths))

    def forward(self, words: Tensor, *tensors: Tensor) -> Tuple[Tensor, ...]:
        sample: Dict[str, Any] = {"ntokens": words}
        for path, value in (*zip(self.paths, tensors), *self.others):
            inner = sample
            for name in path[:-1]:
                inner = inner.setdefault(name, {})
            inner[path[-1]] = value
        enabled, dtype = self.autocast
        with torch.autocast("cuda", enabled=enabled, dtype=dtype, cache_enabled=False):
            loss, size, self.logged = self.criterion(self.model, sample)
        self.size = None if isinstance(size, Tensor) else size
        self.names = [name for name, value in self.logged.items() if isinstance(value, Tensor) and name not in WORDS]
        return (loss, *(self.logged[name] for name in self.names))


CUDA_GRAPHS = Patch(
    name="cuda_graphs",
    reason="a GPU waits for the host, which launches a thousand small kernels in a step of a recurrent decoder",
    wraps={"fairseq.tasks.fairseq_task:FairseqTask.train_step": _graphing},
)
