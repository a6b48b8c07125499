"""What Figure 1 would show if the states h were random: a calculation to compare the measured distances with.

    python docs/results/figure1_untrained.py PTB_TRAIN_TXT > docs/results/figure1-untrained.csv

From a start at zero, W moves by the sum over the text of (target - prediction) h^T. While the prediction is uniform, that is

    sum over words w of [ beta tau |V| (y~_w - 1/|V|) + (1 - beta) (e_w - 1/|V|) ] (sum of h before w)^T

(the gradient of beta tau^2 |V| J_aug + (1 - beta) J). Here the last factor is drawn: independent states of unit variance
add up to a Gaussian vector whose variance is the number of times w occurs. Needs NumPy.
"""

import sys

import numpy as np

WORDS, UNITS = 20_000, 300
STARTS = {1: 134_683, 2: 581_823, 3: 159_293}  # the pieces of the runs of `bowline reproduce figure1`
POINTS = [("a", beta, 10.0) for beta in (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)]
POINTS += [("b", 1.0, tau) for tau in (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)]


def distance(a, b):
    """Appendix B, for orthonormal bases of the two spans."""
    (a, _), (b, _) = np.linalg.qr(a), np.linalg.qr(b)
    return np.sqrt(max(0.0, 1.0 - np.sum((a.T @ b) ** 2) / a.shape[1]))


text = open(sys.argv[1], encoding="utf-8").read().replace("\n", " <eos> ").split()
number = {word: i for i, word in enumerate(dict.fromkeys(text))}
text, size = np.array([number[word] for word in text]), len(number)

print("panel,beta,tau,run,distance")
for run, start in STARTS.items():
    random = np.random.default_rng(run)
    vectors = random.uniform(-1.0, 1.0, (size, UNITS))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    count = np.bincount(text[start : start + WORDS], minlength=size)
    seen = np.flatnonzero(count)
    states = np.sqrt(count[seen])[:, None] * random.standard_normal((len(seen), UNITS))
    logits = vectors @ vectors[seen].T
    one_hot = np.zeros_like(logits)
    one_hot[seen, np.arange(len(seen))] = 1.0
    for panel, beta, tau in POINTS:
        estimate = np.exp(logits / tau)
        estimate /= estimate.sum(axis=0)
        pull = beta * tau * size * (estimate - 1.0 / size) + (1.0 - beta) * (one_hot - 1.0 / size)
        print(f"{panel},{beta},{tau},{run},{distance(vectors, pull @ states):.6f}")
