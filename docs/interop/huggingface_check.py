"""Loads a folder of `bowline export --to huggingface` in transformers, minicons and lm-eval, and compares with the program.

    python docs/interop/huggingface_check.py FOLDER RUN TEXT bowline

TEXT has a sentence a line, RUN is what was exported, and the last argument is the program. Needs torch, transformers,
minicons and lm-eval.
"""
import json, pathlib, subprocess, sys, tempfile
from importlib.metadata import version

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

folder, run, text, program = sys.argv[1:]
lines = [line.strip() for line in open(text, encoding="utf-8")]
answers = subprocess.run([program, "score", run, text, "--json"], capture_output=True, text=True, check=True).stdout
answers = [json.loads(line) for line in answers.splitlines()]

# transformers: word by word, one by one and padded on either side.
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True).eval()
eos = tokenizer.eos_token


@torch.no_grad()
def logprobs(texts, side):
    tokenizer.padding_side = side
    batch = tokenizer([f"{eos}{text} {eos}" for text in texts], return_tensors="pt", padding=True)
    y = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits.double().log_softmax(-1)
    ids, mask = batch["input_ids"][:, 1:], (batch["attention_mask"][:, 1:] * batch["attention_mask"][:, :-1]).bool()
    chosen = y[:, :-1].gather(-1, ids.unsqueeze(-1)).squeeze(-1)
    return [row[keep].tolist() for row, keep in zip(chosen, mask)]


def difference(found, expected):
    """Of log-probabilities: relative for those below -1, absolute for the others."""
    return max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(found, expected))


largest, words = {"left": 0.0, "right": 0.0}, 0
for side in largest:
    for start in range(0, len(lines), 50):
        for found, answer in zip(logprobs(lines[start:start + 50], side), answers[start:start + 50]):
            assert len(found) == len(answer["logprobs"]), (found, answer)
            words += len(found)
            largest[side] = max(largest[side], difference(found, answer["logprobs"]))
print(f"transformers {version('transformers')}: {words // 2} words, largest difference of a log-probability "
      f"{largest['left']:.1e} padded left, {largest['right']:.1e} right")
assert max(largest.values()) < 1e-5

# A text that does not begin with <eos> is read as though it did.
first, also = (tokenizer(t, return_tensors="pt")["input_ids"] for t in [f"{eos}{lines[0]}", lines[0]])
with torch.no_grad():
    assert torch.allclose(model(first).logits[:, 1:], model(also).logits, atol=1e-5)

# generate: the likeliest words, alone and in a batch with a shorter prompt.
prompts = [" ".join(lines[0].split()[:3]), " ".join(lines[1].split()[:1])]
tokenizer.padding_side = "left"
batch = tokenizer(prompts, return_tensors="pt", padding=True)
drawn = model.generate(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], do_sample=False, max_new_tokens=20)
for prompt, ids in zip(prompts, drawn):
    ours = subprocess.run([program, "generate", run, "--plain", "--prompt", prompt, "--words", "20", "--temperature", "0", "--unk", "--raw"],
                          capture_output=True, text=True, check=True).stdout.strip()
    theirs = tokenizer.decode(ids, skip_special_tokens=False).replace(eos, " ").split()
    assert theirs == ours.split(), (theirs, ours)
    print(f"generate: {ours}")
beams = model.generate(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], num_beams=4, max_new_tokens=10)
print(f"generate with 4 beams: {tokenizer.decode(beams[0], skip_special_tokens=True)}")

# minicons: the surprisal of each word.
from minicons import scorer
theirs = scorer.IncrementalLMScorer(folder, "cpu", trust_remote_code=True)
largest = 0.0
for start in range(0, min(len(lines), 200), 20):
    part = [line for line in lines[start:start + 20] if line.strip()]
    scores = theirs.token_score(part, bos_token=True, prob=False, surprisal=False)
    part_answers = [a for a, line in zip(answers[start:start + 20], lines[start:start + 20]) if line.strip()]
    for found, answer in zip(scores, part_answers):
        found = [score for _, score in found][1:]  # the first is <eos> itself
        assert len(found) == len(answer["logprobs"]) - 1, (found, answer)
        largest = max(largest, difference(found, answer["logprobs"]))
print(f"minicons {version('minicons')}: largest difference {largest:.1e}")
assert largest < 1e-5

# lm-eval: the log-likelihood of whole sentences, and of a word after its context.
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
lm = HFLM(pretrained=folder, trust_remote_code=True, device="cpu", batch_size=8)
request = lambda kind, *arguments: Instance(request_type=kind, doc={}, arguments=arguments, idx=0)
some = [i for i, line in enumerate(lines[:200]) if len(line.split()) > 2]
rolling = lm.loglikelihood_rolling([request("loglikelihood_rolling", lines[i]) for i in some])
largest = difference(rolling, [sum(answers[i]["logprobs"][:-1]) for i in some])
split = [lines[i].rsplit(" ", 1) for i in some]
last = lm.loglikelihood([request("loglikelihood", context, " " + word) for context, word in split])
largest_last = difference([found for found, _ in last], [answers[i]["logprobs"][-2] for i in some])
print(f"lm-eval {version('lm-eval')}: largest difference of a sentence {largest:.1e}, of a last word {largest_last:.1e}")
assert largest < 1e-5 and largest_last < 1e-5
