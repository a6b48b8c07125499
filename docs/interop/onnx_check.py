"""Checks exported models with onnx and onnxruntime: the sum of the sentences' log-probabilities, as `bowline score`
has it.

    python docs/interop/onnx_check.py RUN/best/vocab.txt ptb.test.txt step.onnx sequence.onnx
"""
import sys
import numpy
import onnx
import onnxruntime

vocab, text, *files = sys.argv[1:]
words = open(vocab, encoding="utf-8", newline="\n").read().split("\n")[:-1]
ids = {word: i for i, word in enumerate(words)}
eos = ids["<eos>"]
lines = [line.split() for line in open(text, encoding="utf-8")]
sentences = [[eos] + [ids.get(word, ids.get("<unk>")) for word in line] + [eos] for line in lines]
sentences.sort(key=len)


def batches(most=32):
    """Sentences of about the same length side by side, (time + 1, batch), padded with <eos>, and what counts."""
    for first in range(0, len(sentences), most):
        some = sentences[first : first + most]
        tokens = numpy.full((max(map(len, some)), len(some)), eos, numpy.int64)
        for column, sentence in enumerate(some):
            tokens[: len(sentence), column] = sentence
        yield tokens, numpy.arange(1, len(tokens))[:, None] < numpy.array([len(s) for s in some])


for file in files:
    onnx.checker.check_model(file, full_check=True)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    about = session.get_modelmeta().custom_metadata_map
    shapes = {state.name: state.shape for state in session.get_inputs()[1:]}
    total = 0.0

    def run(ids, state):
        """Log-probabilities, and the state after the words."""
        results = session.run(None, {"ids": ids, **state})
        after = {value.name: result for value, result in zip(session.get_outputs(), results)}
        return after["log_probabilities"], {name: after[f"next_{name}"] for name in state}

    for tokens, counts in batches():
        state = {name: numpy.zeros((layers, tokens.shape[1], d), numpy.float32) for name, (layers, _, d) in shapes.items()}
        if about["bowline.form"] == "sequence":
            log_p, state = run(tokens[:-1], state)
            chosen = numpy.take_along_axis(log_p, tokens[1:, :, None], 2)[:, :, 0]
        else:
            chosen = numpy.zeros(counts.shape)
            for t in range(len(tokens) - 1):
                log_p, state = run(tokens[t], state)
                chosen[t] = numpy.take_along_axis(log_p, tokens[t + 1][:, None], 1)[:, 0]
        total += chosen[counts].astype(numpy.float64).sum()
    print(f"{file}: {about['bowline.model']}, {about['bowline.form']} form, the checker is content")
    print(f"sum of the sentences' log-probabilities: {total:.6f} ({sum(map(len, sentences)) - len(sentences)} words)")
