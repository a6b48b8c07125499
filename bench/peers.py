#!/usr/bin/env python3
"""Measures one peer of Bowline on one REAL training step and prints one JSON line.

    python peers.py torch-vd --size small --vocab 10000 --threads 2 --steps 20

The work is that of `bowline bench --model real`: 20 streams, 35 steps, two LSTM layers, one table of word vectors that
is input and classifier, cross-entropy plus gamma * tau * KL(y~ || y^) at tau = 20 with no gradient through y~, summed
over the steps and averaged over the streams, global-norm clipping, SGD. Every step has new words, drawn from Zipf's law
before the clock starts.

Nobody is given needless work. The KL divergence is computed as a cross-entropy with y~ as its target: the two differ by
the entropy of y~, which has no gradient. The sum over all of a window's words is divided by 20, and by nothing else.

Contenders whose name has `vd` in it apply the paper's masks: drawn once a window, on the input and on each layer's h,
where it enters its own next step and the layer above. `torch-lstm` is nn.LSTM, whose fused layers have no room for
masks inside: it gets the masks on its input and its output alone, and so does less than the paper asks.

With `--keep 1` all contenders compute the same thing from the same start, so their cross-entropies must agree.
"""

import argparse
import collections
import itertools
import json
import math
import os
import platform
import statistics
import sys
import time
import traceback

STREAMS, STEPS, LAYERS = 20, 35, 2
TAU, GAMMA, LEARNING_RATE = 20.0, 0.65, 1.0
WARM_UP = 3

Size = collections.namedtuple("Size", "hidden init keep clip")
SIZES = {
    "small": Size(200, 0.1, 0.7, 5.0),
    "medium": Size(650, 0.05, 0.5, 5.0),
    "large": Size(1500, 0.04, 0.35, 6.0),
}

Contender = collections.namedtuple("Contender", "package masks compiled precision")
CONTENDERS = {
    "jax-vd": Contender("jax", True, True, "f32"),
    "torch-vd": Contender("torch", True, False, "f32"),
    "torch-vd-compile": Contender("torch", True, True, "f32"),
    "torch-vd-bf16": Contender("torch", True, False, "bf16"),
    "torch-vd-compile-bf16": Contender("torch", True, True, "bf16"),
    "torch-lstm": Contender("torch", False, False, "f32"),
    "torch-lstm-compile": Contender("torch", False, True, "f32"),
    "torch-lstm-bf16": Contender("torch", False, False, "bf16"),
    "torch-lstm-compile-bf16": Contender("torch", False, True, "bf16"),
}


def windows(vocab, seed=1):
    """Inputs and targets, each (T, B), without end. A window's first inputs are the last targets of the one before."""
    import numpy

    generator = numpy.random.default_rng(seed)
    law = 1.0 / numpy.arange(1, vocab + 1)
    law /= law.sum()
    last = generator.choice(vocab, (1, STREAMS), p=law)
    while True:
        words = numpy.concatenate([last, generator.choice(vocab, (STEPS, STREAMS), p=law)])
        yield words[:-1].astype(numpy.int32), words[1:].astype(numpy.int32)
        last = words[-1:]


def initial_weights(size, vocab, seed=1):
    """The word vectors (V, d) and for each layer (4d, d) for its input, (4d, d) for its own state; gates i, f, g, o."""
    import numpy

    generator = numpy.random.default_rng(seed)

    def uniform(*shape):
        return generator.uniform(-size.init, size.init, shape).astype(numpy.float32)

    d = size.hidden
    return uniform(vocab, d), [(uniform(4 * d, d), uniform(4 * d, d)) for _ in range(LAYERS)]


def sigmoids_first(weight):
    """From the order i, f, g, o of the gates to i, f, o, g, so that one sigmoid serves three of them."""
    import numpy

    i, f, g, o = numpy.split(weight, 4)
    return numpy.concatenate([i, f, o, g])


def torch_step(contender, size, vocab, threads):
    """Two functions: one makes a window ready, the other trains on it and returns its cross-entropy."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    d = size.hidden
    vectors, matrices = initial_weights(size, vocab)

    class Masked(nn.Module):
        """One layer as a loop over the steps. What comes from below is multiplied once for the whole window."""

        def __init__(self, from_below, from_before):
            super().__init__()
            self.from_below = nn.Parameter(torch.from_numpy(sigmoids_first(from_below)))
            self.from_before = nn.Parameter(torch.from_numpy(sigmoids_first(from_before)))
            self.bias = nn.Parameter(torch.zeros(4 * d))

        def forward(self, x, state, mask):
            below = F.linear(x, self.from_below, self.bias)  # (T, B, 4d)
            from_before = self.from_before.to(below.dtype).t()  # cast once a window, where there is a cast
            (h, c), out = state, []
            masked = h * mask
            for gates in below.unbind(0):
                gates = torch.addmm(gates, masked, from_before)
                sigmoids, candidate = gates.split((3 * d, d), 1)
                i, f, o = sigmoids.sigmoid().chunk(3, 1)
                c = f * c + i * candidate.tanh()
                h = o * c.tanh()
                masked = h * mask
                out.append(masked)
            return torch.stack(out), (h.detach(), c.detach())

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.vectors = nn.Parameter(torch.from_numpy(vectors))
            if contender.masks:
                self.layers = nn.ModuleList([Masked(*pair) for pair in matrices])
            else:
                self.layers = nn.LSTM(d, d, LAYERS)
                with torch.no_grad():
                    for layer, (from_below, from_before) in enumerate(matrices):
                        getattr(self.layers, f"weight_ih_l{layer}").copy_(torch.from_numpy(from_below))
                        getattr(self.layers, f"weight_hh_l{layer}").copy_(torch.from_numpy(from_before))
                        getattr(self.layers, f"bias_ih_l{layer}").zero_()
                        # nn.LSTM has two biases where one is enough.
                        getattr(self.layers, f"bias_hh_l{layer}").zero_().requires_grad_(False)

        def start(self):
            if contender.masks:
                return [(torch.zeros(STREAMS, d), torch.zeros(STREAMS, d)) for _ in range(LAYERS)]
            return torch.zeros(LAYERS, STREAMS, d), torch.zeros(LAYERS, STREAMS, d)

        def forward(self, inputs, targets, state, masks):
            x = F.embedding(inputs, self.vectors) * masks[0]  # (T, B, d)
            if contender.masks:
                after = []
                for layer, before, mask in zip(self.layers, state, masks[1:]):
                    x, now = layer(x, before, mask)
                    after.append(now)
            else:
                x, after = self.layers(x, state)
                x, after = x * masks[-1], tuple(part.detach() for part in after)
            logits = F.linear(x.flatten(0, 1), self.vectors).float()  # (T B, V)
            with torch.no_grad():
                wanted = F.linear(F.embedding(targets, self.vectors), self.vectors).float()
                wanted = F.softmax(wanted.div_(TAU), 1)
            ce = F.cross_entropy(logits, targets, reduction="sum")
            augmented = F.cross_entropy(logits / TAU, wanted, reduction="sum")
            return (ce + GAMMA * TAU * augmented) / STREAMS, ce.detach(), after

    model = Model()
    forward = torch.compile(model) if contender.compiled else model
    parameters = [p for p in model.parameters() if p.requires_grad]
    sgd = torch.optim.SGD(parameters, lr=LEARNING_RATE, fused=True)
    state = model.start()

    def step(window):
        nonlocal state
        inputs, targets = window
        masks = torch.empty(1 + LAYERS, STREAMS, d).bernoulli_(size.keep).div_(size.keep).unbind(0)
        with torch.autocast("cpu", torch.bfloat16, enabled=contender.precision == "bf16"):
            loss, ce, state = forward(inputs, targets, state, masks)
        sgd.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, size.clip)
        sgd.step()
        return ce.item()

    def prepare(inputs, targets):
        return torch.from_numpy(inputs).long(), torch.from_numpy(targets).long().flatten()

    return prepare, step


def jax_step(contender, size, vocab, threads):
    """The same in JAX: the whole step is one compiled function that reuses the buffers of the weights."""
    import jax
    import jax.numpy as jnp

    d = size.hidden
    vectors, matrices = initial_weights(size, vocab)
    weights = {
        "vectors": jnp.asarray(vectors),
        "layers": [
            {
                "from_below": jnp.asarray(sigmoids_first(from_below).T),
                "from_before": jnp.asarray(sigmoids_first(from_before).T),
                "bias": jnp.zeros(4 * d),
            }
            for from_below, from_before in matrices
        ],
    }

    def layer(weights, x, state, mask):
        def cell(state, below):
            h, c = state
            gates = below + (h * mask) @ weights["from_before"]
            i, f, o = jnp.split(jax.nn.sigmoid(gates[:, : 3 * d]), 3, 1)
            c = f * c + i * jnp.tanh(gates[:, 3 * d :])
            h = o * jnp.tanh(c)
            return (h, c), h * mask

        return jax.lax.scan(cell, state, x @ weights["from_below"] + weights["bias"])

    def loss_of(weights, inputs, targets, states, masks):
        vectors = weights["vectors"]
        x, after = vectors[inputs] * masks[0], []
        for own, before, mask in zip(weights["layers"], states, masks[1:]):
            now, x = layer(own, x, before, mask)
            after.append(now)
        logits = x.reshape(-1, d) @ vectors.T
        ce = -jnp.take_along_axis(jax.nn.log_softmax(logits), targets[:, None], 1).sum()
        wanted = jax.lax.stop_gradient(jax.nn.softmax(vectors[targets] @ vectors.T / TAU))
        augmented = -(wanted * jax.nn.log_softmax(logits / TAU)).sum()
        return (ce + GAMMA * TAU * augmented) / STREAMS, (ce, after)

    def train(weights, states, key, inputs, targets):
        key, own = jax.random.split(key)
        masks = jax.random.bernoulli(own, size.keep, (1 + LAYERS, STREAMS, d)) / size.keep
        gradient, (ce, states) = jax.grad(loss_of, has_aux=True)(weights, inputs, targets, states, masks)
        norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(gradient)))
        rate = LEARNING_RATE * jnp.minimum(1.0, size.clip / norm)
        return jax.tree.map(lambda w, g: w - rate * g, weights, gradient), states, key, ce

    compiled = jax.jit(train, donate_argnums=(0, 1, 2))
    states = [(jnp.zeros((STREAMS, d)), jnp.zeros((STREAMS, d))) for _ in range(LAYERS)]
    key = jax.random.key(1)

    def step(window):
        nonlocal weights, states, key
        weights, states, key, ce = compiled(weights, states, key, *window)
        jax.block_until_ready((weights, states, ce))
        return float(ce)

    def prepare(inputs, targets):
        return jnp.asarray(inputs), jnp.asarray(targets.reshape(-1))

    return prepare, step


def limit_threads(package, threads):
    """Before the packages are loaded, because they look when they are."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)
    if package == "jax":
        # XLA has no option for its threads. It counts the CPUs that the process may run on, unless NPROC tells it.
        os.environ["NPROC"] = str(threads)
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        if hasattr(os, "sched_setaffinity"):
            allowed = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, allowed[:threads])


def versions(package):
    import importlib.metadata as metadata

    names = ["numpy", "torch"] if package == "torch" else ["numpy", "jax", "jaxlib"]
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in names}


def measure(options):
    contender = CONTENDERS[options.contender]
    size = SIZES[options.size]
    if options.keep is not None:
        size = size._replace(keep=options.keep)
    limit_threads(contender.package, options.threads)
    make = torch_step if contender.package == "torch" else jax_step
    prepare, step = make(contender, size, options.vocab, options.threads)
    drawn = itertools.islice(windows(options.vocab), WARM_UP + options.steps)
    ce, seconds, busy = [], [], 0.0
    for at, window in enumerate([prepare(*window) for window in drawn]):
        cpu, start = time.process_time(), time.perf_counter()
        total = step(window)
        if at >= WARM_UP:
            seconds.append(time.perf_counter() - start)
            busy += time.process_time() - cpu
        ce.append(total / (STREAMS * STEPS))
    if not all(map(math.isfinite, ce)):
        raise ArithmeticError(f"the cross-entropy is not finite: {ce}")
    return {
        "peer": options.contender,
        "size": options.size,
        "vocab": options.vocab,
        "threads": options.threads,
        "precision": contender.precision,
        "paper_masks": contender.masks,
        "tokens_per_second": STREAMS * STEPS / statistics.median_high(seconds),
        "steps": options.steps,
        "step_seconds": seconds,
        "cores_used": busy / sum(seconds),
        "ce_per_word": ce if options.all_ce else [ce[0], ce[-1]],
        "versions": versions(contender.package),
    }


def positive(text):
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contender", choices=CONTENDERS)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--vocab", type=positive, default=10_000, help="words in the vocabulary")
    parser.add_argument("--threads", type=positive, default=2)
    parser.add_argument("--steps", type=positive, default=10, help=f"steps to measure, after {WARM_UP} to warm up")
    parser.add_argument("--keep", type=float, help="keep probability of the masks [default: the paper's]")
    parser.add_argument("--all-ce", action="store_true", help="every step's cross-entropy, not the first and the last")
    options = parser.parse_args()
    try:
        result = measure(options)
    except ModuleNotFoundError as error:
        install = {"jax": "jax[cpu]"}.get(error.name, error.name)
        sys.exit(f'{options.contender} needs the Python package {error.name}: pip install "{install}"')
    except Exception as error:
        traceback.print_exc()
        why = str(error).strip().splitlines() or [""]
        sys.exit(f"{type(error).__name__}: {why[0]}")
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
