"""Saves word models as PyTorch users do, for `bowline import`, and prints what PyTorch itself says of a text.

    python docs/interop/torch_model.py TRAIN.txt TEST.txt OUT

The model is that of PyTorch's word language model example, its weights as they are drawn: what matters here is that
both programs compute the same. OUT gets `vocab.txt` and, for each way to save, `WAY.safetensors`.
"""
import math, os, sys
import torch
from safetensors.torch import save_file, save_model

train, test, out = sys.argv[1:]
words = list(dict.fromkeys(open(train, encoding="utf-8").read().split())) + ["<eos>"]
words += [] if "<unk>" in words else ["<unk>"]
ids = {word: i for i, word in enumerate(words)}
os.makedirs(out, exist_ok=True)
open(f"{out}/vocab.txt", "w", encoding="utf-8").write("".join(word + "\n" for word in words))
lines = [line.split() + ["<eos>"] for line in open(test, encoding="utf-8")]
tokens = torch.tensor([[ids.get(word, ids["<unk>"])] for line in lines for word in line])


class Model(torch.nn.Module):
    def __init__(self, size, d, layers, tied, bias=True):
        super().__init__()
        self.encoder = torch.nn.Embedding(size, d)
        self.rnn = torch.nn.LSTM(d, d, layers)
        self.decoder = torch.nn.Linear(d, size, bias)
        if tied:
            self.decoder.weight = self.encoder.weight


@torch.no_grad()
def perplexity(model):
    total, state = 0.0, None
    for inputs, targets in zip(tokens[:-1].split(500), tokens[1:].split(500)):
        hidden, state = model.rnn(model.encoder(inputs), state)
        total += model.decoder(hidden).log_softmax(-1).gather(-1, targets.unsqueeze(-1)).double().sum().item()
    return math.exp(-total / (len(tokens) - 1))


torch.manual_seed(1)
ways = {
    "untied": (False, True, lambda model, file: save_file(model.state_dict(), file)),
    "tied": (True, False, save_model),
    "tied-with-bias": (True, True, save_model),
    "halves": (False, True, lambda model, file: save_file(model.half().state_dict(), file)),
    "brain-halves": (False, True, lambda model, file: save_file(model.bfloat16().state_dict(), file)),
}
for way, (tied, bias, save) in ways.items():
    model = Model(len(words), 32, 2, tied, bias)
    save(model, f"{out}/{way}.safetensors")
    print(f"{way}: perplexity {perplexity(model.float()):.6f}")
