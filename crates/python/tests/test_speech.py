"""Speech recognisers that others wrote rescore with our model.

sherpa-onnx runs a toy recogniser made here: its encoder hears nothing, but says for each moment how likely each token is. It takes a
wrong word to be a little likelier. Without a language model the recogniser follows its ears; with one it writes what makes
sense, from the weight on at which our own scores say so. pocketsphinx hears real recordings.
"""

import hashlib
import io
import json
import pathlib
import subprocess
import tarfile
import urllib.request
import wave

import numpy as np
import pytest

import bowline

HEARD, SAID = "the mat sat on the mat".split(), "the cat sat on the mat".split()
TOKENS = ["<blk>", "<sos/eos>", "<unk>", "the", "cat", "sat", "on", "mat", "dog", "ran", "to", "a", "bird", "sang", "near"]
MARGIN = 0.5
"""By so much is the logarithm of the wrong word greater."""


@pytest.fixture(scope="module")
def tokens(place: pathlib.Path) -> str:
    path = place / "tokens.txt"
    path.write_text("".join(f"{token} {i}\n" for i, token in enumerate(TOKENS)))
    return str(path)


@pytest.fixture(scope="module", params=["lstm", "mogrifier"])
def run(request: pytest.FixtureRequest, place: pathlib.Path, tokens: str) -> str:
    """A model of the recogniser's own tokens: its words are in the order of tokens.txt."""
    settings = {"hidden": 24, "network__unit": request.param, "network__rank": 8, "epochs": 12, "batch": 4}
    bowline.train("cats.txt", f"runs/{request.param}", model="re", vocab=tokens, threads=1, **settings)
    return f"runs/{request.param}"


@pytest.fixture(scope="module")
def lm(run: str) -> bowline.LanguageModel:
    return bowline.load(run, threads=1)


@pytest.fixture(scope="module")
def exported(program: str, run: str) -> dict[str, str]:
    files = {"offline": f"{run}/offline.onnx", "streaming": f"{run}/streaming.onnx"}
    for form, file in files.items():
        command = [program, "export", run, "--to", "sherpa-onnx", "--out", file]
        subprocess.run([*command, *(["--streaming"] if form == "streaming" else [])], check=True, capture_output=True)
    return files


def logits() -> np.ndarray:
    """Of each token at each moment, (moments, tokens)."""
    rows = np.full((len(SAID), len(TOKENS)), -20.0, dtype=np.float32)
    for row, sure, maybe in zip(rows, SAID, HEARD):
        row[TOKENS.index(sure)] = 0.0
        row[TOKENS.index(maybe)] = MARGIN if sure != maybe else 0.0
    return rows


def recogniser(place: pathlib.Path, streaming: bool) -> dict[str, str]:
    """A transducer of three ONNX files."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    f, i, v = TensorProto.FLOAT, TensorProto.INT64, len(TOKENS)

    def save(name, nodes, takes, gives, constants, metadata):
        values = lambda of: [helper.make_tensor_value_info(*value) for value in of]
        initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
        graph = helper.make_graph(nodes, name, values(takes), values(gives), initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        helper.set_model_props(model, {key: str(value) for key, value in metadata.items()})
        onnx.checker.check_model(model, full_check=True)
        path = place / f"{name}-{'streaming' if streaming else 'offline'}.onnx"
        onnx.save(model, str(path))
        return str(path)

    node = helper.make_node
    heard = logits()[None]
    if streaming:
        takes = [("x", f, [1, "time", 80]), ("h0", f, [1, 1, 4]), ("c0", f, [1, 1, 4])]
        gives = [("encoder_out", f, list(heard.shape)), ("next_h0", f, [1, 1, 4]), ("next_c0", f, [1, 1, 4])]
        nodes = [node("Identity", [a], [b]) for a, b in (("heard", "encoder_out"), ("h0", "next_h0"), ("c0", "next_c0"))]
        metadata = {"model_type": "lstm", "num_encoder_layers": 1, "T": 40, "decode_chunk_len": 40,
                    "rnn_hidden_size": 4, "d_model": 4}
        encoder = save("encoder", nodes, takes, gives, {"heard": heard}, metadata)
    else:
        takes = [("x", f, [1, "time", 80]), ("x_lens", i, [1])]
        gives = [("encoder_out", f, list(heard.shape)), ("encoder_out_lens", i, [1])]
        nodes = [node("Identity", ["heard"], ["encoder_out"]), node("Identity", ["moments"], ["encoder_out_lens"])]
        constants = {"heard": heard, "moments": np.array([heard.shape[1]], dtype=np.int64)}
        encoder = save("encoder", nodes, takes, gives, constants, {"model_type": "zipformer"})
    # The decoder has nothing to say of the tokens before.
    nodes = [
        node("Cast", ["y"], ["as_float"], to=f),
        node("ReduceSum", ["as_float", "axis"], ["sum"]),
        node("Mul", ["sum", "zero"], ["nothing"]),
        node("Expand", ["nothing", "shape"], ["decoder_out"]),
    ]
    constants = {"axis": np.array([1]), "zero": np.zeros(1, np.float32), "shape": np.array([1, v])}
    takes, gives = [("y", i, ["n", 2])], [("decoder_out", f, ["n", v])]
    decoder = save("decoder", nodes, takes, gives, constants, {"vocab_size": v, "context_size": 2})
    takes, gives = [("encoder_out", f, ["n", v]), ("decoder_out", f, ["n", v])], [("logit", f, ["n", v])]
    joiner = save("joiner", [node("Add", ["encoder_out", "decoder_out"], ["logit"])], takes, gives, {}, {"joiner_dim": v})
    return {"encoder": encoder, "decoder": decoder, "joiner": joiner}


def samples() -> np.ndarray:
    """Half a second, of which the recogniser takes no notice."""
    return np.random.default_rng(1).normal(0, 0.01, 8000).astype(np.float32)


def threshold(lm: bowline.LanguageModel) -> float:
    """The weight of the language model from which on what makes sense wins, by our own scores."""
    return MARGIN / (lm.score(" ".join(SAID)).logprob - lm.score(" ".join(HEARD)).logprob)


def test_the_ids_are_those_of_the_recogniser(lm: bowline.LanguageModel) -> None:
    assert list(lm.words) == ["<eos>" if token == "<sos/eos>" else token for token in TOKENS]


def test_wrong_ids_are_an_exception_that_names_the_line(place: pathlib.Path) -> None:
    (place / "gap.txt").write_text("<blk> 0\n<sos/eos> 2\n")
    with pytest.raises(bowline.Error, match=r"gap.txt:2: the id of `<sos/eos>` is 2, but the next one is 1"):
        bowline.train("cats.txt", "runs/gap", model="re", epochs=1, vocab="gap.txt")
    with pytest.raises(TypeError):
        bowline.train("cats.txt", "runs/gap", model="re", epochs=1, vocab=3)


def test_onnxruntime_costs_a_sentence_as_we_do(lm: bowline.LanguageModel, exported: dict[str, str]) -> None:
    ort = pytest.importorskip("onnxruntime")
    sentences = [SAID, HEARD, ["the"], "a bird sang near the dog and ran".split(), []]
    ids = [[lm.id(word) if word in lm else lm.id("<unk>") for word in sentence] for sentence in sentences]
    # What stands after a sentence is not looked at, even if it is no token at all.
    x = np.full((len(ids), max(map(len, ids))), 12345, dtype=np.int64)
    for row, sentence in zip(x, ids):
        row[: len(sentence)] = sentence
    session = ort.InferenceSession(exported["offline"])
    (nll,) = session.run(None, {"x": x, "x_lens": np.array([len(s) for s in ids], dtype=np.int64)})
    ours = [-lm.score(" ".join(sentence)).logprob for sentence in sentences]
    assert nll.shape == (len(ids),)
    print("offline, largest difference of a sentence:", np.abs(nll - ours).max())
    assert np.abs(nll - ours).max() < 1e-4, (nll, ours)
    # Token by token.
    session = ort.InferenceSession(exported["streaming"])
    metadata = session.get_modelmeta().custom_metadata_map
    layers, d = int(metadata["num_layers"]), int(metadata["hidden_size"])
    h, c, token, found = *np.zeros((2, layers, 1, d), np.float32), int(metadata["sos_id"]), []
    for word in [*SAID, "<eos>"]:
        log_p, h, c = session.run(None, {"x": np.array([[token]], dtype=np.int64), "h0": h, "c0": c})
        assert log_p.shape == (len(TOKENS),)
        token = lm.id(word)
        found.append(log_p[token])
    differences = np.abs(np.array(found) - lm.score(" ".join(SAID)).logprobs)
    print("streaming, largest difference of a token:", differences.max())
    assert differences.max() < 1e-4


def test_an_offline_recogniser_rescores(
    place: pathlib.Path, tokens: str, lm: bowline.LanguageModel, exported: dict[str, str]
) -> None:
    sherpa_onnx = pytest.importorskip("sherpa_onnx")
    files = recogniser(place, streaming=False)

    def recognise(**options: object) -> list[str]:
        made = sherpa_onnx.OfflineRecognizer.from_transducer(
            **files, tokens=tokens, decoding_method="modified_beam_search", **options
        )
        stream = made.create_stream()
        stream.accept_waveform(16000, samples())
        made.decode_stream(stream)
        return stream.result.tokens

    assert recognise() == HEARD
    weight = threshold(lm)
    assert weight > 0
    print("offline, the weight from which on the other hypothesis wins:", weight)
    for factor, expected in ((0.98, HEARD), (1.02, SAID)):
        assert recognise(lm=exported["offline"], lm_scale=factor * weight) == expected, (weight, factor)


def test_a_streaming_recogniser_asks_for_each_token(
    place: pathlib.Path, tokens: str, lm: bowline.LanguageModel, exported: dict[str, str]
) -> None:
    sherpa_onnx = pytest.importorskip("sherpa_onnx")
    files = recogniser(place, streaming=True)

    def recognise(**options: object) -> dict:
        made = sherpa_onnx.OnlineRecognizer.from_transducer(
            **files, tokens=tokens, decoding_method="modified_beam_search", **options
        )
        stream = made.create_stream()
        stream.accept_waveform(16000, samples())
        stream.input_finished()
        while made.is_ready(stream):
            made.decode_stream(stream)
        return json.loads(made.get_result_as_json_string(stream))

    assert recognise()["tokens"] == HEARD
    found = recognise(lm=exported["streaming"], lm_scale=2.0)
    assert found["tokens"] == SAID
    # What it adds for each token is what the model says; the end of the sentence it does not ask for.
    ours = lm.score(" ".join(SAID)).logprobs[:-1]
    print("streaming, largest difference of sherpa-onnx's own lm_probs:", np.abs(np.array(found["lm_probs"]) - ours).max())
    assert np.abs(np.array(found["lm_probs"]) - ours).max() < 1e-4, (found["lm_probs"], ours)


SOURCES = "https://files.pythonhosted.org/packages/61/e7/13e0e787ff467218de880310d79cba14424f13b87171ac44af0bde1e428c/pocketsphinx-5.1.1.tar.gz"
SHA256 = "675778b309a22dfc9b7d37f7621976bba491d2a5f8c59696bd77fd6d07271355"


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The recordings of pocketsphinx's own tests, which are in its source distribution alone."""
    pytest.importorskip("pocketsphinx")
    try:
        with urllib.request.urlopen(SOURCES, timeout=60) as answer:
            archive = answer.read()
    except OSError as error:
        pytest.skip(f"pocketsphinx's recordings cannot be fetched: {error}")
    assert hashlib.sha256(archive).hexdigest() == SHA256
    place = tmp_path_factory.mktemp("recordings")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files.getmembers():
            parts = pathlib.PurePosixPath(member.name).parts
            if parts[1:4] == ("test", "data", "cards") and member.isfile():
                (place / parts[-1]).write_bytes(files.extractfile(member).read())
    return place


def test_pocketsphinx_decodes_with_our_arpa_and_its_hypotheses_are_rescored(
    program: str, recordings: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Five recordings of playing cards, with a language model of playing cards."""
    import jiwer
    import pocketsphinx

    ranks = "ace two three four five six seven eight nine ten jack queen king".split()
    random = np.random.default_rng(1)
    card = lambda: f"{random.choice(ranks)} of {random.choice(['clubs', 'diamonds', 'hearts', 'spades'])}"
    lines = [" ".join([card() for _ in range(random.integers(1, 4))]) for _ in range(1500)] + [f"{a} {a}" for a in ranks]
    (tmp_path / "cards.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "words.txt").write_text("\n".join(sorted({word for line in lines for word in line.split()})) + "\n")
    options = {"vocab": tmp_path / "words.txt", "threads": 1}
    bowline.train(str(tmp_path / "cards.txt"), tmp_path / "kn", model="kn", order=3, **options)
    bowline.train(str(tmp_path / "cards.txt"), tmp_path / "net", model="re", hidden=32, epochs=4, **options)
    subprocess.run([program, "arpa", "write", tmp_path / "kn", tmp_path / "kn.arpa"], check=True, capture_output=True)

    decoder = pocketsphinx.Decoder(lm=str(tmp_path / "kn.arpa"), loglevel="FATAL")
    said, heard, nbest = {}, {}, []
    for line in (recordings / "cards.transcription").read_text().splitlines():
        text, name = line.removeprefix("<s> ").rstrip(")").split(" </s> (")
        said[name] = text.strip()
        with wave.open(str(recordings / f"{name}.wav")) as sound:
            decoder.start_utt()
            decoder.process_raw(sound.readframes(sound.getnframes()), full_utt=True)
            decoder.end_utt()
        heard[name] = decoder.hyp().hypstr
        texts = dict.fromkeys([heard[name], *(h.hypstr for h, _ in zip(decoder.nbest(), range(20)) if h.hypstr)])
        nbest += [f"{name}-{k + 1} {text}\n" for k, text in enumerate(texts)]
    (tmp_path / "nbest").write_text("".join(nbest))
    rescored = subprocess.run([program, "rescore", tmp_path / "net", tmp_path / "nbest"], check=True, capture_output=True, text=True)
    best = {line.split()[0]: " ".join(line.split()[1:]) for line in rescored.stdout.splitlines()}
    before, after = (jiwer.wer(list(said.values()), [texts[name] for name in said]) for texts in (heard, best))
    print(f"word error rate {before:.3f}, by the network alone {after:.3f}, {len(nbest)} hypotheses")
    assert before < 0.5, heard
    # One of the hypotheses each, and the likeliest by our own scores.
    model = bowline.load(tmp_path / "net", threads=1)
    for name, text in best.items():
        texts = [line.split(" ", 1)[1].strip() for line in nbest if line.startswith(name + "-")]
        assert text == max(texts, key=lambda text: model.score(text).logprob)
