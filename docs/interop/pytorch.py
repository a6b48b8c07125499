"""Loads a Bowline model in PyTorch and measures it on a text, as `bowline eval` and `bowline score` do.

    python docs/interop/pytorch.py RUN/best ptb.test.txt
"""
import json, math, re, sys
import torch
from safetensors.torch import load_file

folder, text = sys.argv[1:]
config = json.load(open(f"{folder}/config.json"))
words = open(f"{folder}/vocab.txt", encoding="utf-8", newline="\n").read().split("\n")[:-1]
ids = {word: i for i, word in enumerate(words)}
network = config.get("network") or {  # the paper's networks are written more briefly
    "vocab": config["vocab_size"],
    "input": {"width": config["hidden_size"]},
    "layers": [{"unit": {"kind": "lstm", "coupled": False}, "units": config["hidden_size"]}] * config["num_layers"],
    "output": {"projection": None, "tied": (tied := config["tie_word_embeddings"]), "bias": not tied},
}


class Model(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        width, output = network["input"]["width"], network["output"]
        self.encoder = torch.nn.Embedding(network["vocab"], width)
        self.layers = torch.nn.ModuleList()
        for layer in network["layers"]:
            self.layers.append(recurrent(layer)(width, layer["units"]))
            width = layer["units"]
        self.projection = None
        if projection := output["projection"]:
            self.projection = torch.nn.Linear(width, projection["width"], bias=projection["bias"])
            width = projection["width"]
            functions = {"linear": lambda x: x, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu}
            self.activation = functions[projection["activation"]]
        self.decoder = torch.nn.Linear(width, network["vocab"], bias=output["bias"])

    def forward(self, inputs, states):
        x, after = self.encoder(inputs), []
        for layer, state in zip(self.layers, states or [None] * len(self.layers)):
            x, state = layer(x, state)
            after.append(state)
        if self.projection is not None:
            x = self.activation(self.projection(x))
        return self.decoder(x).log_softmax(-1), after


class Mogrifier(torch.nn.Module):
    """An LSTM whose input and state gate each other before every step (Melis, Kocisky, Blunsom 2020)."""

    def __init__(self, inputs, units, rounds, rank, coupled):
        super().__init__()
        self.coupled, sizes = coupled, [(units, inputs), (inputs, units)]
        self.weight_ih_l0 = torch.nn.Parameter(torch.empty(4 * units, inputs))
        self.weight_hh_l0 = torch.nn.Parameter(torch.empty(4 * units, units))
        self.bias_ih_l0, self.bias_hh_l0 = (torch.nn.Parameter(torch.empty(4 * units)) for _ in range(2))
        self.down, self.up = torch.nn.ModuleList(), torch.nn.ModuleList()
        for source, target in (sizes[r % 2] for r in range(rounds)):
            self.down.append(torch.nn.Linear(source, rank, bias=False))
            self.up.append(torch.nn.Linear(rank, target))

    def forward(self, inputs, state):
        h, c = state or 2 * [torch.zeros(inputs.shape[1], self.weight_hh_l0.shape[1])]
        outputs = []
        for x in inputs:
            for r, (down, up) in enumerate(zip(self.down, self.up)):
                if r % 2 == 0:
                    x = 2 * torch.sigmoid(up(down(h))) * x
                else:
                    h = 2 * torch.sigmoid(up(down(x))) * h
            gates = x @ self.weight_ih_l0.T + h @ self.weight_hh_l0.T + self.bias_ih_l0 + self.bias_hh_l0
            i, f, g, o = gates.chunk(4, -1)
            i, f, o = i.sigmoid(), f.sigmoid(), o.sigmoid()
            c = f * c + (torch.minimum(i, 1 - f) if self.coupled else i) * g.tanh()
            h = o * c.tanh()
            outputs.append(h)
        return torch.stack(outputs), (h, c)


def recurrent(layer):
    """PyTorch's module for a layer, given its sizes."""
    unit = layer["unit"]
    if unit["kind"] == "mogrifier":
        return lambda inputs, units: Mogrifier(inputs, units, unit["rounds"], unit["rank"], unit["coupled"])
    if layer.get("direct") or unit.get("coupled") or unit["kind"] not in ("lstm", "gru", "rnn"):
        sys.exit(f"PyTorch has no module for {layer}")
    if unit["kind"] == "rnn":
        if unit["activation"] not in ("tanh", "relu"):
            sys.exit(f"torch.nn.RNN has no {unit['activation']}")
        return lambda inputs, units: torch.nn.RNN(inputs, units, nonlinearity=unit["activation"])
    return torch.nn.LSTM if unit["kind"] == "lstm" else torch.nn.GRU


model, weights = Model(network), {}
for name, values in load_file(f"{folder}/model.safetensors").items():
    # A module for each layer, so that they may be of unequal width: `rnn.bias_ih_l1` is `layers.1.bias_ih_l0`.
    if name.startswith("rnn."):
        tensor, layer = name[len("rnn."):].rsplit("_l", 1)
        name = f"layers.{layer}.{tensor}_l0"
    if name.startswith("mogrifier."):  # `mogrifier.down_l1_r2` is `layers.1.down.2.weight`, and a bias that of `up`
        tensor, layer, r = re.fullmatch(r"mogrifier\.(\w+)_l(\d+)_r(\d+)", name).groups()
        name = f"layers.{layer}." + (f"up.{r}.bias" if tensor == "bias" else f"{tensor}.{r}.weight")
    weights[name] = values
if network["output"]["tied"]:
    weights["decoder.weight"] = weights["encoder.weight"]
model.load_state_dict(weights)

@torch.no_grad()
def log_probability(tokens, state=None, window=500):
    """The sum of log p of every token after the first, with the state carried from window to window."""
    total, tokens = 0.0, torch.tensor(tokens).unsqueeze(1)
    for inputs, targets in zip(tokens[:-1].split(window), tokens[1:].split(window)):
        log_probabilities, state = model(inputs, state)
        total += log_probabilities.gather(-1, targets.unsqueeze(-1)).double().sum().item()
    return total

eos = ids["<eos>"]
lines = [line.split() for line in open(text, encoding="utf-8")]
sentences = [[ids.get(word, ids.get("<unk>")) for word in line] + [eos] for line in lines]
stream = [token for sentence in sentences for token in sentence]
print(f"perplexity, state carried: {math.exp(-log_probability(stream) / (len(stream) - 1)):.6f}")
total = sum(log_probability([eos] + sentence) for sentence in sentences)
print(f"sum of the sentences' log-probabilities: {total:.6f} ({len(stream)} words, {len(sentences)} sentences)")
