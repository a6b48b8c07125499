"""What PyTorch makes of a text in a given time: `cargo xtask time-to-perplexity` runs this beside Bowline.

    train_peers.py RECIPE DATA SECONDS THREADS SEED

prints one JSON object a line: {"seconds": ..., "valid": ...} after every epoch, and at the end the same with "test", of the weights
that were best on validation. The recipes are those of PyTorch's word_language_model example, with 200 and with 650 units, and
AWD-LSTM (Merity, Keskar, Socher 2018). All are as their authors set them, with the fused kernels of nn.LSTM.
"""

import contextlib
import json
import math
import pathlib
import random
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

RECIPES = {
    # word_language_model: --tied, SGD at 20, a quarter of it when validation gets no better.
    "torch-200": dict(embedding=200, hidden=200, layers=2, dropout=0.2, batch=20, window=35, rate=20.0, clip=0.25),
    "torch-650": dict(embedding=650, hidden=650, layers=2, dropout=0.5, batch=20, window=35, rate=20.0, clip=0.25),
    # awd-lstm-lm's command for PTB.
    "torch-awd": dict(embedding=400, hidden=1150, layers=3, batch=20, window=70, rate=30.0, clip=0.25),
}


def read(folder):
    """The three splits as ids; one <eos> for each line."""
    ids, splits = {}, []
    for name in ("train", "valid", "test"):
        words = []
        path = next(p for p in sorted(pathlib.Path(folder).iterdir()) if name in p.name)
        with open(path, encoding="utf-8") as file:
            for line in file:
                words += [ids.setdefault(word, len(ids)) for word in line.split() + ["<eos>"]]
        splits.append(torch.tensor(words))
    return splits, len(ids)


def streams(words, batch):
    """(time, batch)"""
    length = len(words) // batch
    return words[: length * batch].view(batch, length).t().contiguous()


class Plain(nn.Module):
    """The word_language_model example's LSTM."""

    def __init__(self, vocabulary, embedding, hidden, layers, dropout, **_):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(vocabulary, embedding)
        self.rnn = nn.LSTM(embedding, hidden, layers, dropout=dropout)
        self.decoder = nn.Linear(hidden, vocabulary)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, words, state):
        output, state = self.rnn(self.drop(self.encoder(words)), state)
        return self.decoder(self.drop(output)), state, None


def locked(x, drop, training):
    """Dropout with one mask for all steps of a window."""
    if not training or drop == 0:
        return x
    mask = x.new_empty(1, x.size(1), x.size(2)).bernoulli_(1 - drop) / (1 - drop)
    return x * mask


class Awd(nn.Module):
    """AWD-LSTM: weight-dropped LSTM layers, locked dropout, embedding dropout, tied weights."""

    def __init__(self, vocabulary, embedding, hidden, layers, **_):
        super().__init__()
        self.encoder = nn.Embedding(vocabulary, embedding)
        sizes = [embedding] + [hidden] * (layers - 1) + [embedding]
        self.rnns = nn.ModuleList(nn.LSTM(a, b) for a, b in zip(sizes, sizes[1:]))
        self.decoder = nn.Linear(embedding, vocabulary)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, words, state):
        weight = self.encoder.weight
        if self.training:
            weight = weight * (weight.new_empty(weight.size(0), 1).bernoulli_(0.9) / 0.9)
        x = locked(F.embedding(words, weight), 0.4, self.training)
        after = []
        for i, rnn in enumerate(self.rnns):
            h = state[i] if state is not None else None
            if self.training:
                dropped = {"weight_hh_l0": F.dropout(rnn.weight_hh_l0, 0.5)}
                x, h = torch.func.functional_call(rnn, dropped, (x,) if h is None else (x, h))
            else:
                x, h = rnn(x, h)
            after.append(h)
            raw = x
            x = locked(x, 0.4 if i + 1 == len(self.rnns) else 0.25, self.training)
        penalty = 2 * x.pow(2).mean() + (raw[1:] - raw[:-1]).pow(2).mean() if self.training else None
        return self.decoder(x), after, penalty


def detached(state):
    if isinstance(state, torch.Tensor):
        return state.detach()
    return type(state)(detached(s) for s in state)


@contextlib.contextmanager
def averaged(model, optimizer):
    """The model with the mean of its weights, where the optimiser keeps one."""
    own = {p: p.data for p in model.parameters() if "ax" in optimizer.state.get(p, {})}
    for p in own:
        p.data = optimizer.state[p]["ax"].clone()
    yield
    for p, data in own.items():
        p.data = data


@torch.no_grad()
def perplexity(model, words, batch):
    model.eval()
    text, state, total = streams(words, batch), None, 0.0
    for at in range(0, len(text) - 1, 70):
        inputs, targets = text[at : at + 70][: len(text) - 1 - at], text[at + 1 : at + 71]
        logits, state, _ = model(inputs, state)
        total += F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum").item()
    model.train()
    return math.exp(total / (text.numel() - text.size(1)))


def main():
    name, folder, seconds, threads, seed = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
    begin = time.perf_counter()
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    random.seed(seed)
    recipe = RECIPES[name]
    (train, valid, test), vocabulary = read(folder)
    awd = name == "torch-awd"
    model = (Awd if awd else Plain)(vocabulary, **recipe)
    decay = 1.2e-6 if awd else 0.0
    optimizer = torch.optim.SGD(model.parameters(), lr=recipe["rate"], weight_decay=decay)
    text, best, kept, averaging, curve = streams(train, recipe["batch"]), math.inf, None, False, []
    spent = lambda: time.perf_counter() - begin
    # The last evaluations belong to the time, too.
    reserve, over = 0.05 * seconds, False
    while not over:
        state, at = None, 0
        while at < len(text) - 1:
            window = recipe["window"]
            if awd:
                window = max(5, int(random.gauss(window if random.random() < 0.95 else window / 2, 5)))
            inputs = text[at : at + window][: len(text) - 1 - at]
            targets = text[at + 1 : at + 1 + window]
            state = detached(state) if state is not None else None
            logits, state, penalty = model(inputs, state)
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
            if penalty is not None:
                loss = loss + penalty
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), recipe["clip"])
            rate = optimizer.param_groups[0]["lr"]
            if awd:
                optimizer.param_groups[0]["lr"] = rate * window / recipe["window"]
            optimizer.step()
            optimizer.param_groups[0]["lr"] = rate
            at += window
            if spent() > seconds - reserve:
                over = True
                break
        now = spent()
        with averaged(model, optimizer):
            found = perplexity(model, valid, 10)
            better = found < best
            if better:
                best, kept = found, {key: value.clone() for key, value in model.state_dict().items()}
        reserve = max(reserve, 2.5 * (spent() - now))
        print(json.dumps({"seconds": spent(), "valid": found}), flush=True)
        if awd and not better:
            # Non-monotonically triggered averaging, after five epochs without a gain.
            if not averaging and len(curve) > 5 and found > min(curve[:-5]):
                averaging = True
                optimizer = torch.optim.ASGD(model.parameters(), lr=recipe["rate"], t0=0, lambd=0.0, weight_decay=decay)
        elif not better:
            optimizer.param_groups[0]["lr"] /= 4
        curve.append(found)
    if kept is not None:
        model.load_state_dict(kept)
    # One stream, as Bowline's own figures have it.
    found = perplexity(model, test, 1)
    print(json.dumps({"seconds": spent(), "valid": best, "test": found, "torch": torch.__version__}), flush=True)


if __name__ == "__main__":
    main()
