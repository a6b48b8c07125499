"""Loads a Bowline model in PyTorch and measures it on a text, as `bowline eval` and `bowline score` do.

    python docs/interop/pytorch.py RUN/best ptb.test.txt
"""
import json, math, sys
import torch
from safetensors.torch import load_file

folder, text = sys.argv[1:]
config = json.load(open(f"{folder}/config.json"))
words = open(f"{folder}/vocab.txt", encoding="utf-8", newline="\n").read().split("\n")[:-1]
ids = {word: i for i, word in enumerate(words)}
size, d, tied = config["vocab_size"], config["hidden_size"], config["tie_word_embeddings"]
model = torch.nn.ModuleDict({
    "encoder": torch.nn.Embedding(size, d),
    "rnn": torch.nn.LSTM(d, d, config["num_layers"]),
    "decoder": torch.nn.Linear(d, size, bias=not tied),
})
weights = load_file(f"{folder}/model.safetensors")
if tied:
    weights["decoder.weight"] = weights["encoder.weight"]
model.load_state_dict(weights)

@torch.no_grad()
def log_probability(tokens, state=None, window=500):
    """The sum of log p of every token after the first, with the state carried from window to window."""
    total, tokens = 0.0, torch.tensor(tokens).unsqueeze(1)
    for inputs, targets in zip(tokens[:-1].split(window), tokens[1:].split(window)):
        hidden, state = model["rnn"](model["encoder"](inputs), state)
        total += model["decoder"](hidden).log_softmax(-1).gather(-1, targets.unsqueeze(-1)).double().sum().item()
    return total

eos = ids["<eos>"]
lines = [line.split() for line in open(text, encoding="utf-8")]
sentences = [[ids.get(word, ids.get("<unk>")) for word in line] + [eos] for line in lines]
stream = [token for sentence in sentences for token in sentence]
print(f"perplexity, state carried: {math.exp(-log_probability(stream) / (len(stream) - 1)):.6f}")
total = sum(log_probability([eos] + sentence) for sentence in sentences)
print(f"sum of the sentences' log-probabilities: {total:.6f} ({len(stream)} words, {len(sentences)} sentences)")
