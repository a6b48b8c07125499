"""Figure 1's end point with the classifier at its very minimum.

    python docs/results/figure1_minimum.py MODEL PTB_TRAIN_TXT

MODEL is the `best` folder of a run with beta = 1. Its states and word vectors are taken as they are. For them the loss,
tau^2 |V| KL(y~ || y^), is convex in W, so that a few Newton steps find its only minimum. Prints the loss and the distance
between the spans of L^T and W, as trained and after every step. Needs torch and safetensors.
"""

import pathlib
import sys
import tomllib

import torch
from safetensors.torch import load_file


def distance(a, b):
    """Appendix B, for orthonormal bases of the two spans."""
    a, b = torch.linalg.qr(a)[0], torch.linalg.qr(b)[0]
    return (1.0 - (a.T @ b).square().sum() / a.shape[1]).clamp_min(0).sqrt().item()


def states_of(model, words, streams):
    """The outputs of the last layer before each word but the first of every stream, and these words."""
    units, layers = model["encoder.weight"].shape[1], sum(name.startswith("rnn.weight_hh") for name in model)
    lstm = torch.nn.LSTM(units, units, layers)
    lstm.load_state_dict({name.removeprefix("rnn."): value for name, value in model.items() if name.startswith("rnn.")})
    columns = words[: len(words) // streams * streams].view(streams, -1).T
    with torch.no_grad():
        states, _ = lstm(model["encoder.weight"][columns[:-1]])
    return states.reshape(-1, units), columns[1:].reshape(-1)


folder = pathlib.Path(sys.argv[1])
model = load_file(folder / "model.safetensors")
settings = tomllib.loads((folder.parent / "config.toml").read_text(encoding="utf-8"))
start, length = settings["data"]["train_start"], settings["data"]["train_words"]
number = {word: i for i, word in enumerate((folder / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1])}
text = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8").replace("\n", " <eos> ").split()
words = torch.tensor([number[word] for word in text[start : start + length]])
h, target = states_of(model, words, settings["batch"])
# In double precision: what tells the distributions apart is a millionth of them.
h, vectors, classifier = h.double(), model["encoder.weight"].double(), model["decoder.weight"].double()
tau, size = settings["augment"]["tau"], len(vectors)
inverse = torch.linalg.inv(h.T @ h / len(h))

for step in range(4):
    loss, gradient = 0.0, torch.zeros_like(classifier)
    for part in torch.arange(len(h)).split(2000):
        estimate = torch.log_softmax(vectors[target[part]] @ vectors.T / tau, dim=1)
        prediction = torch.log_softmax(h[part] @ classifier.T / tau, dim=1)
        loss += (estimate.exp() * (estimate - prediction)).sum().item()
        gradient += (prediction.exp() - estimate.exp()).T @ h[part]
    what = f"{step} steps of Newton" if step else "as trained"
    print(f"{what}: loss {tau**2 * size * loss / len(h):.4f}, distance {distance(vectors, classifier):.4f}", flush=True)
    # Every prediction is close to 1 / |V|, so that the Hessian of each word's row is close to the covariance of the states.
    classifier -= tau * size / len(h) * gradient @ inverse
