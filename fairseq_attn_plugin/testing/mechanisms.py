"""The contract of attention mechanisms (:mod:`fairseq_attn_plugin.attention.base`) and of scores, normalisers and
biases, which is that of a mechanism with the part in use."""

import copy
from typing import Any, Callable, Dict, Iterable, Optional

import torch
from torch import Tensor

from ..attention import BIASES, NORMALIZERS, SCORES, Attention, index_rows, map_tensors
from ..attention.normalizers import LOG_ZERO
from ..errors import OptionError
from .subject import LENGTHS, Subject, attend, batch_of, draw_queries, precompute, step, step_at, stepwise

_B = len(LENGTHS)
Check = Callable[[Subject], None]


def equal(actual: Any, expected: Any, rule: str, **tolerances: float) -> None:
    """``torch.testing.assert_close`` whose message begins with the rule."""
    torch.testing.assert_close(actual, expected, msg=lambda text: f"{rule}. {text}", **tolerances)


def require(right: Any, rule: str) -> None:
    """Raises AssertionError with the rule unless ``right``."""
    if not bool(right):
        raise AssertionError(rule)


# --- what must not matter: padding, the other sentences of a batch, single steps, hypotheses and their order


def padding(subject: Subject) -> None:
    module, results = subject.build(), []
    for side, width in (("left", 6), ("right", 6), ("left", 13), ("right", 9)):
        encodings, pad_mask, _ = batch_of(side, width)
        context, found = attend(module, draw_queries(), encodings, pad_mask)
        results.append((context, [found[row, :, ~pad_mask[row]] for row in range(_B)]))
    rule = "neither the side nor the amount of padding may change a result"
    for result in results[1:]:
        equal(result, results[0], rule)


def garbage_on_padding(subject: Subject) -> None:
    module = subject.build()
    encodings, pad_mask, _ = batch_of()
    expected = attend(module, draw_queries(), encodings, pad_mask)
    filled = encodings.masked_fill(pad_mask.unsqueeze(-1), 1e3)
    equal(attend(module, draw_queries(), filled, pad_mask), expected, "encodings on padding must not be read")


def batch_mates(subject: Subject) -> None:
    module = subject.build()
    encodings, pad_mask, sentences = batch_of()
    context, found = attend(module, draw_queries(), encodings, pad_mask)
    for row, sentence in enumerate(sentences):
        alone, weight = attend(module, draw_queries()[row : row + 1], sentence[None], None)
        rule = "a sentence alone, with pad_mask None, must give what it gives in a batch"
        equal((alone, weight), (context[row : row + 1], found[row : row + 1, :, ~pad_mask[row]]), rule)


def sentence_without_words(subject: Subject) -> None:
    module = subject.build()
    encodings, pad_mask, _ = batch_of()
    alone, _ = attend(module, draw_queries(), encodings, pad_mask)
    encodings = torch.cat([encodings, torch.zeros_like(encodings[:1])]).requires_grad_()
    pad_mask = torch.cat([pad_mask, torch.ones_like(pad_mask[:1])])
    query = torch.cat([draw_queries(), draw_queries()[:1]])
    context, found = attend(module, query, encodings, pad_mask)
    context.pow(2).sum().backward()
    equal(context[:-1], alone, "a row of padding only must leave the other sentences alone")
    require(
        found[-1].isfinite().all() and (context[-1] == 0).all(), "a row of padding only must have a context of zeros"
    )
    assert encodings.grad is not None
    require(encodings.grad.isfinite().all(), "a row of padding only must not make gradients infinite or NaN")


def single_steps(subject: Subject) -> None:
    module = subject.build()
    encodings, pad_mask, _ = batch_of()
    memory = precompute(module, encodings, pad_mask)
    whole = attend(module, draw_queries(), encodings, pad_mask)
    rule = "all steps in one call must give what single steps give, or the mechanism sets recurrent = True"
    equal(stepwise(module, draw_queries(), memory), whole, rule)


def hypotheses(subject: Subject) -> None:
    """As beam search does it: K hypotheses of a sentence are K queries of the same step."""
    module, beam = subject.build(), 3
    encodings, pad_mask, _ = batch_of()
    rows = torch.arange(_B).repeat_interleave(beam)
    queries = torch.cat([draw_queries(2), 1 - draw_queries(2), draw_queries(2) * 0.5]).view(beam, _B, 2, -1)
    queries = queries.transpose(0, 1).reshape(_B * beam, 2, -1)
    memory = precompute(module, encodings, pad_mask)
    state = index_rows(module.initial_state(memory), rows)
    state = map_tensors(lambda x: x.reshape(_B, beam, *x.shape[2:]), state)
    contexts = []
    for t in range(2):
        out = step_at(module, queries[:, t].view(_B, beam, -1), memory, state, torch.full((_B, beam), t))
        state = out.state
        contexts.append(out.context.reshape(_B * beam, -1))
    apart, _ = stepwise(module, queries, precompute(module, encodings[rows], pad_mask[rows]))
    rule = "hypotheses of a sentence, side by side in T, must not depend on each other"
    equal(torch.stack(contexts, 1), apart, rule)


def reordering(subject: Subject) -> None:
    module, order = subject.build(), torch.tensor([2, 2, 0, 3, 1])
    encodings, pad_mask, _ = batch_of()
    query = draw_queries(2)
    memory = precompute(module, encodings, pad_mask)
    state = step(module, query[:, :1], memory, module.initial_state(memory)).state
    moved = step(module, query[order, 1:], index_rows(memory, order), index_rows(state, order), 1)
    direct, _ = stepwise(module, query[order], precompute(module, encodings[order], pad_mask[order]))
    rule = "rows of memory and state selected by index_rows must give what those sentences give from the start"
    equal(moved.context, direct[:, 1:], rule)


def advance(subject: Subject) -> None:
    module = subject.build()
    if type(module).advance is Attention.advance:
        return
    encodings, pad_mask, _ = batch_of()
    memory = precompute(module, encodings, pad_mask)
    state = module.initial_state(memory)
    out = step(module, draw_queries(1), memory, state)
    rule = "advance must return the state of step, given its weights, or the mechanism has advance = Attention.advance"
    equal(module.advance(state, out.weights), out.state, rule)


def penalties(subject: Subject) -> None:
    module, lengths = subject.build(), (3, 2, 1, 3)
    encodings, pad_mask, sentences = batch_of()
    memory = precompute(module, encodings, pad_mask)
    _, found = attend(module, draw_queries(), encodings, pad_mask)
    beyond = torch.arange(3) >= torch.tensor(lengths).unsqueeze(1)
    whole = {name: one.value for name, one in module.penalties(memory, found, beyond).items()}
    known = all(name.endswith(("_penalty", "_statistic")) for name in [*whole, *module.parameter_penalties()])
    require(known, "names of penalties must end with _penalty, or those of quantities without weight with _statistic")
    apart = dict.fromkeys(whole, 0.0)
    for row, (sentence, steps) in enumerate(zip(sentences, lengths)):
        weights = found[row : row + 1, :steps, ~pad_mask[row]]
        for name, one in module.penalties(precompute(module, sentence[None], None), weights).items():
            apart[name] = apart[name] + one.value
    rule = "penalties must be the sums of those of single sentences, without padding and steps of step_mask"
    equal(whole, apart, rule)


# --- what a mechanism returns: shapes, weights, gradients, precision; its state dictionary


def shapes(subject: Subject) -> None:
    sizes = [(5, 5), (4, 3)]
    for query_dim, memory_dim in sizes:
        try:
            module = subject.build(query_dim=query_dim, memory_dim=memory_dim)
        except OptionError:
            require(query_dim != memory_dim, "equal query_dim and memory_dim must be accepted")
            continue
        encodings, pad_mask, _ = batch_of(dim=memory_dim)
        memory = precompute(module, encodings, pad_mask)
        _check_tensors(memory, "memory")
        steps = 1 if module.recurrent else 3
        state = module.initial_state(memory)
        out = step(module, draw_queries(steps, dim=query_dim), memory, state)
        _check_tensors(out.state, "state")
        before, after = ([map_tensors(lambda x: tuple(x.shape), one)] for one in (state, out.state))  # type: ignore
        require(before == after, f"a state must keep its shapes from step to step: {before} becomes {after}")
        width = max(LENGTHS)
        for part, size in (("context", memory_dim), ("weights", width), ("scores", width)):
            found = tuple(getattr(out, part).shape)
            require(found == (_B, steps, size), f"{part} must be [B, T, {size}] = {(_B, steps, size)}, is {found}")


def _check_tensors(tensors: Any, what: str) -> None:
    """Beam search reorders memories and states along their first dimension."""
    if tensors is not None:
        named = isinstance(tensors, tuple) and hasattr(tensors, "_fields")
        require(named, f"the {what} must be None or a NamedTuple of tensors, is {type(tensors).__name__}")

    def one(tensor: Tensor) -> Tensor:
        found = tuple(tensor.shape)
        require(
            tensor.dim() > 0 and len(tensor) == _B,
            f"tensors of the {what} must be [B, ...] with B = {_B}, one is {found}",
        )
        return tensor

    map_tensors(one, tensors)


def weights(subject: Subject) -> None:
    module = subject.build()
    encodings, pad_mask, _ = batch_of()
    context, found = attend(module, draw_queries(), encodings, pad_mask)
    require((found >= 0).all(), f"weights must not be negative; the least is {found.min().item():g}")
    on_padding = found.masked_select(pad_mask[:, None])
    require((on_padding == 0).all(), "weights must be exactly zero on padding (pad_mask is True there)")
    if module.normalized:
        rule = "weights must sum to one over the words of a sentence, or the mechanism sets normalized = False"
        equal(found.sum(-1), torch.ones_like(found[..., 0]), rule)
    if module.config.max_normalize:
        rule = "with max_normalize the greatest weight must be one, or takes lacks max_normalize"
        equal(found.amax(-1), torch.ones_like(found[..., 0]), rule)
    equal(context, found @ encodings, "the context must be the sum of the encodings by their weights")


def log_weights(subject: Subject) -> None:
    module = subject.build()
    if not module.normalized:
        return
    encodings, pad_mask, _ = batch_of()
    memory = precompute(module, encodings, pad_mask)
    out = step(module, draw_queries(1), memory, module.initial_state(memory))
    logs = module.log_weights(out.weights, out.scores, pad_mask)
    rule = "exp(log_weights) must be the weights; scores_are_logits says whether the scores are their logits"
    equal(logs.exp(), out.weights, rule, rtol=1e-6, atol=1e-9)
    require((logs.masked_select(pad_mask[:, None]) == LOG_ZERO).all(), "log_weights must be LOG_ZERO on padding")


def gradients(subject: Subject) -> None:
    module = subject.build()
    encodings, pad_mask, _ = batch_of()

    def function(query: Tensor, encodings: Tensor, *_: Tensor) -> Any:
        return attend(module, query, encodings, pad_mask)

    inputs = (draw_queries(2).requires_grad_(), encodings.requires_grad_(), *module.parameters())
    # Random projections of the Jacobian: as sharp as all of its columns, and many times faster.
    try:
        torch.autograd.gradcheck(function, inputs, atol=1e-4, rtol=1e-3, fast_mode=True)
    except RuntimeError as error:  # torch's GradcheckError is one
        raise AssertionError(f"gradients must equal finite differences. {error}") from None


def parameters(subject: Subject) -> None:
    module = subject.build()
    encodings, pad_mask, _ = batch_of()
    memory = precompute(module, encodings.requires_grad_(), pad_mask)
    out = step(module, draw_queries(1), memory, module.initial_state(memory))
    more = {**module.penalties(memory, out.weights), **module.parameter_penalties()}
    results = torch.stack([x.sum() for x in (out.context, out.scores, *(one.value for one in more.values()))])
    named = dict(module.named_parameters())
    found = torch.autograd.grad(results.sum(), [encodings, *named.values()], allow_unused=True)[1:]
    idle = ", ".join(name for name, gradient in zip(named, found) if gradient is None)
    rule = "every parameter must have an effect: a method that replaces another keeps its score, biases and penalties"
    require(not idle, f"{rule}. There is none of {idle}")


def half_precision(subject: Subject) -> None:
    encodings, pad_mask, _ = batch_of(dtype=torch.float32)
    module = subject.build(torch.float32)
    expected, _ = attend(module, draw_queries(dtype=torch.float32), encodings, pad_mask)
    for dtype in (torch.float16, torch.bfloat16):
        half, inputs = copy.deepcopy(module).to(dtype), encodings.to(dtype).requires_grad_()
        context, found = attend(half, draw_queries(dtype=dtype), inputs, pad_mask)
        context.float().pow(2).sum().backward()
        assert inputs.grad is not None
        require(context.dtype == found.dtype == dtype, f"in {dtype} context and weights must be of that type")
        finite = all(bool(x.isfinite().all()) for x in (context, found, inputs.grad))
        require(finite, f"in {dtype} results and gradients must be finite: compute exp and log in float32")
        require((found.masked_select(pad_mask[:, None]) == 0).all(), f"in {dtype} padding must have zero weights")
        # Half precision rounds the scores; on these inputs the effect is below a few percent of the encodings' size.
        equal(context.float(), expected, f"{dtype} must be close to float32", rtol=0.1, atol=0.15)


def extreme_scores(subject: Subject) -> None:
    module = subject.build(torch.float32)
    encodings, pad_mask, _ = batch_of(dtype=torch.float32)
    encodings = (encodings * 1e3).requires_grad_()
    context, found = attend(module, draw_queries(dtype=torch.float32) * 1e2, encodings, pad_mask)
    context.sum().backward()
    assert encodings.grad is not None
    finite = found.isfinite().all() and encodings.grad.isfinite().all()
    require(finite, "weights and gradients of very large scores must be finite")


def state_dict(subject: Subject) -> None:
    module, other = subject.build(), subject.build()
    for parameter in other.parameters():
        torch.nn.init.zeros_(parameter)
    other.load_state_dict(module.state_dict())
    encodings, pad_mask, _ = batch_of()
    for one, two in zip(*(attend(m, draw_queries(), encodings, pad_mask) for m in (module, other))):
        require(torch.equal(one, two), "a module with the state dictionary of another must give equal results")


def nothing_kept(subject: Subject) -> None:
    module = subject.build()
    attributes = {key: set(vars(part)) for key, part in module.named_modules()}
    buffers = {key: buffer.clone() for key, buffer in module.named_buffers()}
    encodings, pad_mask, _ = batch_of()
    attend(module, draw_queries(), encodings, pad_mask)
    for key, part in module.named_modules():
        new = sorted(set(vars(part)) - attributes[key])
        require(not new, f"nothing of a batch may stay on the module: {'.'.join(filter(None, [key, *new]))} is new")
    same = dict(module.named_buffers()).keys() == buffers.keys()
    same = same and all(torch.equal(buffer, buffers[key]) for key, buffer in module.named_buffers())
    require(same, "a forward pass must not change buffers")


# --- the whole contract

# By title, in the order in which they run.
CHECKS: Dict[str, Check] = {
    check.__name__: check
    for check in (
        *(padding, garbage_on_padding, batch_mates, sentence_without_words, single_steps, hypotheses, reordering),
        *(advance, penalties, shapes, weights, log_weights, parameters, gradients, half_precision, extreme_scores),
        *(state_dict, nothing_kept),
    )
}


def check_attention(
    name: str,
    prepare: Optional[Callable[[Attention], object]] = None,
    checks: Optional[Iterable[str]] = None,
    **options: Any,
) -> None:
    """Checks that a registered mechanism keeps the contract, on a small batch on the CPU.

    The checks are: shapes; weights that are non-negative, zero on padding and sum to one unless ``normalized`` is
    False; no influence of padding, batch or hypotheses of other sentences; the whole sequence equals single steps;
    reordered memories and states; ``advance``; penalties; an effect of every parameter; gradients against finite
    differences in float64; float16 and bfloat16; extreme scores; the state dictionary; nothing of a batch on the
    module. They do not know the formula: compare the weights with a slow, obvious version of it in a test of your own.

    Args:
        name: the registered name
        prepare: called with every module that is built, for what options cannot set, such as the content of files
        checks: some names of ``CHECKS`` (default: all)
        options: the mechanism's options, by field name (``size=5``) or by full name (``mine_size=5``)

    Raises:
        AssertionError: the mechanism breaks a rule; the message names mechanism, options, check and rule
        OptionError: unknown mechanism, option or value
    """
    subject = Subject(name, options, prepare)
    subject.build()
    for title in CHECKS if checks is None else checks:
        try:
            CHECKS[title](subject)
        except AssertionError as error:
            raise AssertionError(f"{subject}, {title}: {error}") from None
        except Exception as error:
            raise AssertionError(f"{subject}, {title}: raises {type(error).__name__}: {error}") from error


def check_score(name: str, attention: str = "soft", **options: Any) -> None:
    """Checks that a registered score keeps the contract.

    Args:
        name: the registered name
        attention: a mechanism with scores to which it belongs
        options: further options, by full name

    Raises:
        AssertionError: the message names options, check and rule
        OptionError: an unknown name, or a wrong value
    """
    SCORES.find(name)
    check_attention(attention, score=name, **options)


def check_normalizer(name: str, attention: str = "soft", **options: Any) -> None:
    """Checks that a registered normaliser keeps the contract: that of attention, and weights of given scores.

    The arguments and errors are those of :func:`check_score`.
    """
    NORMALIZERS.find(name)
    check_attention(attention, normalizer=name, **options)
    own = {key: value for key, value in options.items() if key in NORMALIZERS.options()}
    normalize = NORMALIZERS.build(name, **own)
    one = torch.tensor([[[0.7]]])
    equal(normalize(one, None), torch.ones_like(one), f"normalizer {name}: the weight of a single word must be 1")
    scores = torch.tensor([[2.0, 1.0, 1.0, -1.0]])
    weights = normalize(scores, None)
    falls = (weights[..., :-1] >= weights[..., 1:]).all() and weights[0, 1] == weights[0, 2]
    require(falls, f"normalizer {name}: a greater score must not have a smaller weight, and equal scores equal weights")
    zeros = bool(normalize(10 * scores, None).eq(0).any())
    require(normalize.sparse or not zeros, f"normalizer {name}: has weights of zero; set sparse = True")


def check_bias(name: str, attention: str = "soft", **options: Any) -> None:
    """Checks that a registered bias keeps the contract, alone and beside another.

    The arguments and errors are those of :func:`check_score`.
    """
    BIASES.find(name)
    check_attention(attention, bias=name, **options)
    beside = "markov" if name != "markov" else "position"
    check_attention(attention, bias=f"{beside},{name}", **options)
