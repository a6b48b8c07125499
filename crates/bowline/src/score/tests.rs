use super::*;
use crate::characters::{CharactersSpec, Spelling};
use crate::compute::Compute;
use crate::corpus::Stranger;
use crate::eval::Evaluator;
use crate::loaded_model::LoadedModel;
use crate::model::{Dropout, KeepProb};
use crate::ngram::NgramModel;
use crate::params::Params;
use crate::predictor::recency_cache::RecencySettings;
use crate::predictor::{
    CacheSettings, DynamicForm, DynamicSettings, Ensemble, Mix, MonteCarloSettings, NeuralSettings,
};
use crate::spec::{InputSpec, LayerSpec, ModelSpec, OutputSpec, Unit};
use crate::vocabulary::Vocabulary;
use bowline_kernels::{Isa, Team};
use std::path::Path;
use std::sync::Arc;

/// A model with random weights, of words `<eos>`, `<unk>`, w2, w3, ...
fn model(vocab: usize, hidden: usize, tied: bool) -> Arc<LoadedModel> {
    of_spec(&ModelSpec::paper(vocab, hidden, 2, tied))
}

fn of_spec(spec: &ModelSpec) -> Arc<LoadedModel> {
    let (mut params, vocab) = (Params::zeros(spec), spec.vocab);
    let mut x = 1u64;
    for value in params.data_mut() {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *value = ((x >> 40) as f32 / (1 << 24) as f32 - 0.5) * 1.2;
    }
    let words: String = (2..vocab).map(|i| format!("w{i}\n")).collect();
    let vocabulary = Vocabulary::from_text(Path::new("v"), format!("<eos>\n<unk>\n{words}").as_bytes()).unwrap();
    if let Some(characters) = &spec.input.characters {
        params.set_spelling(Spelling::of(characters, &vocabulary));
    }
    Arc::new(LoadedModel::network("m", "re", params, vocabulary))
}

fn reader(model: &Arc<LoadedModel>, isa: Isa, threads: usize, batch: usize) -> Reader {
    Ensemble::from(Arc::clone(model)).reader(&Arc::new(Team::new(threads)), isa, Some(batch)).unwrap()
}

/// Sentences of 0, 1, 2, ... words, in no order, some of them longer than a window.
fn sentences(model: &LoadedModel, n: usize) -> Vec<Sentence> {
    let mut x = 7u32;
    let mut draw = |below: usize| {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (x >> 8) as usize % below
    };
    (0..n)
        .map(|i| {
            let length = if i % 29 == 5 { 700 + draw(200) } else { draw(30) };
            let words: Vec<String> = (0..length).map(|_| format!("w{}", 2 + draw(model.vocabulary.len()))).collect();
            Sentence::new(&words.join(" "), &model.vocabulary, false).unwrap()
        })
        .collect()
}

/// A network that reads characters reads a word outside its vocabulary by them: as the same word inside it. Others read `<unk>`.
#[test]
fn words_outside_the_vocabulary_are_read_by_their_characters() {
    let characters = CharactersSpec { symbols: 17, length: 6, width: 3, maps: vec![3, 4], highways: 1 };
    let layers = vec![LayerSpec::new(Unit::Lstm { coupled: false }, 9)];
    let input = InputSpec::characters(characters);
    let small = of_spec(&ModelSpec { vocab: 30, input, layers, output: OutputSpec::default() });
    // A stranger that is written like a word of the model.
    let known = Sentence::new("w3 w7 w4 w7 w12", &small.vocabulary, false).unwrap();
    let mut stranger = Sentence { unseen: vec![1, 3], ..known.clone() };
    [1, 3].into_iter().for_each(|place| stranger.ids[place] = 1);
    let other = Sentence { words: ["w3", "w77", "w4", "w7", "w12"].map(str::to_owned).to_vec(), ..stranger.clone() };
    let as_unk = Sentence { unseen: Vec::new(), ..stranger.clone() };
    let mut reader = reader(&small, Isa::detect(), 2, 3);
    assert!(reader.spells());
    let scores = reader.score(&[known, stranger.clone(), other, as_unk.clone()]);
    let after = |i: usize| [2, 4, 5].map(|place| scores[i].logprobs[place]);
    assert_eq!(after(1), after(0));
    assert_eq!(scores[1].logprobs[1], scores[3].logprobs[1], "the word itself is predicted as <unk>");
    assert!(after(2)[0] != after(0)[0] && after(1) != after(3));
    // The same bits alone, after other strangers, carried on, and through a continuation's memory.
    assert_eq!(reader.score(&[stranger.clone()])[0], scores[1]);
    assert_eq!(reader.score_on(&mut Memory::default(), &[stranger.clone()])[0], scores[1]);
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    let strangers = |place: usize| Stranger { place, word: "w7".to_owned() };
    let drawn = |reader: &mut Reader, text: &[u32], strangers: Vec<Stranger>| {
        let mut text = Continuation::new(text.to_vec(), sampling, 1, 1).with_strangers(strangers);
        reader.extend(&mut [&mut text], 0)[0].logprob
    };
    assert_eq!(drawn(&mut reader, &[0, 3, 1], vec![strangers(2)]), drawn(&mut reader, &[0, 3, 7], Vec::new()));
    assert_ne!(drawn(&mut reader, &[0, 3, 1], vec![strangers(2)]), drawn(&mut reader, &[0, 3, 1], Vec::new()));
    let mut closed = reader.without_spelling();
    assert_eq!(closed.score(&[stranger]), closed.score(&[as_unk]));
    // A network with word vectors reads `<unk>`.
    let mut other = Reader::of(Arc::into_inner(model(30, 9, true)).unwrap()).unwrap();
    assert_eq!(drawn(&mut other, &[0, 3, 1], vec![strangers(2)]), drawn(&mut other, &[0, 3, 1], Vec::new()));
}

/// The heart of the matter: on every instruction set, any batch, order, company and number of threads.
#[test]
fn the_bits_of_a_score_do_not_depend_on_batch_order_or_threads() {
    // 131 hidden units and 61 words: no whole number of tiles, registers or panels; large enough to be divided among
    // threads in the recurrent layers.
    for (tied, hidden) in [(true, 131), (false, 24)] {
        let model = model(61, hidden, tied);
        let sentences = sentences(&model, 40);
        for isa in Isa::available() {
            let mut one_by_one = reader(&model, isa, 1, 1);
            let alone: Vec<Scored> = sentences.iter().flat_map(|s| one_by_one.score(std::slice::from_ref(s))).collect();
            for (threads, batch) in [(2, 3), (1, 7), (3, 16), (2, 1000)] {
                let mut reader = reader(&model, isa, threads, batch);
                assert!(reader.score(&sentences) == alone, "{isa:?}, {threads} threads, batches of {batch}");
                let backwards: Vec<Sentence> = sentences.iter().rev().cloned().collect();
                let mut scores = reader.score(&backwards);
                scores.reverse();
                assert!(scores == alone, "{isa:?}, {threads} threads, batches of {batch}, backwards");
                assert!(reader.score(&sentences[30..]) == alone[30..], "{isa:?}, other company");
            }
        }
    }
}

#[test]
fn a_stream_of_sentences_scores_as_the_evaluator_says_however_it_is_cut() {
    let model = model(61, 40, false);
    let sentences = sentences(&model, 40);
    let isa = Isa::detect();
    let ids: Vec<u32> =
        std::iter::once(0).chain(sentences.iter().flat_map(|s| s.ids.iter().copied().chain([0]))).collect();
    let team = Arc::new(Team::new(1));
    let params = model.params().unwrap();
    let nll = Evaluator::new(params.spec(), Compute::new(team, isa), 1).nll(params, &ids);
    let expected: Vec<f64> = nll.iter().map(|x| -x).collect();
    for cut in [1, 7, 40] {
        let mut reader = reader(&model, isa, 2, 5);
        let (mut memory, mut found) = (Memory::default(), Vec::new());
        for part in sentences.chunks(cut) {
            found.extend(reader.score_on(&mut memory, part).into_iter().flat_map(|scored| scored.logprobs));
        }
        assert!(found == expected, "cut after every {cut}");
    }
    // A sentence after a memory is the next of the stream, and the memory of others does not leak into it.
    let mut reader = reader(&model, isa, 1, 4);
    let mut memory = Memory::default();
    reader.score_on(&mut memory, &sentences[..3]);
    let after = reader.score_after(Some(&memory), &sentences[3..6]);
    assert_eq!(after[0], reader.score_on(&mut memory, &sentences[3..4])[0]);
    assert_ne!(after[1], reader.score(&sentences[4..5])[0]);
}

#[test]
fn the_likeliest_words_and_distributions_belong_to_the_scores() {
    let model = model(61, 24, true);
    let mut reader = reader(&model, Isa::detect(), 2, 3);
    let ids = [0, 5, 9, 2, 60, 1, 0];
    let passage = Passage { inputs: &ids[..6], targets: &ids[1..], top: 61, keep: true, ..Passage::default() };
    let readings = reader.read(&[passage, Passage { inputs: &ids, keep: true, ..Passage::default() }]);
    assert!(readings[1].logprobs.is_empty() && readings[1].likeliest.is_empty());
    let [first, second] = &readings[..] else { panic!() };
    for ((target, logprob), likeliest) in ids[1..].iter().zip(&first.logprobs).zip(&first.likeliest) {
        assert_eq!(likeliest.iter().find(|(id, _)| id == target).unwrap().1, *logprob);
        assert!((likeliest.iter().map(|(_, logprob)| logprob.exp()).sum::<f64>() - 1.0).abs() < 1e-6);
        assert!(likeliest.is_sorted_by(|a, b| a.1 >= b.1));
    }
    // The distribution after the memory is the one the last question was about.
    let memories = [first.memory.as_ref().unwrap(), second.memory.as_ref().unwrap()];
    let y = reader.distributions(&memories);
    assert_eq!(y.len(), 2 * 61);
    for (id, logprob) in &first.likeliest[5] {
        assert!((f64::from(y[*id as usize]) - logprob.exp()).abs() < 1e-7);
    }
    assert_eq!(y[61..], reader.distributions(&memories[1..]));
    let y = model.distribution(&Arc::new(Team::new(1)), Isa::detect(), &ids[1..6]).unwrap();
    assert_eq!(y, reader.distributions(&memories[..1]));
}

/// The distribution after a reading.
fn next(reader: &mut Reader, reading: &Reading) -> Vec<f32> {
    reader.distributions(&[reading.memory.as_ref().unwrap()])
}

/// A few words may be read in vain, but not into a memory that is wanted.
#[test]
fn a_memory_that_is_wanted_ends_with_its_passage() {
    let model = model(61, 24, true);
    let mut reader = reader(&model, Isa::detect(), 1, 16);
    let ids: Vec<u32> = (0..16).map(|i| i * 3).collect();
    // One is shorter than its fifteen companions by so little that they would be read to the end together.
    let passage = |i: usize| Passage { inputs: &ids[..16 - usize::from(i == 7)], keep: true, ..Passage::default() };
    let together = reader.read(&(0..16).map(passage).collect::<Vec<_>>());
    for i in [6, 7] {
        let alone = reader.read(&[passage(i)]);
        assert_eq!(next(&mut reader, &alone[0]), next(&mut reader, &together[i]));
    }
    assert_ne!(next(&mut reader, &together[6]), next(&mut reader, &together[7]));
    // After no words a sentence scores as at the beginning of a text.
    let nothing = reader.read(&[Passage { keep: true, ..Passage::default() }]).remove(0).memory;
    let sentences = sentences(&model, 3);
    assert_eq!(reader.score_after(nothing.as_ref(), &sentences), reader.score(&sentences));
}

/// A server reads in a thread of its own.
#[test]
fn a_reader_can_be_sent_to_another_thread() {
    fn check<T: Send>() {}
    check::<Reader>();
    check::<Continuation>();
}

#[test]
fn lines_become_sentences() {
    let model = model(5, 4, true);
    let sentence = |line: &str| Sentence::new(line, &model.vocabulary, false).unwrap();
    let found = sentence(" w3\tzebra  w2 ");
    assert_eq!((found.ids, found.unseen), (vec![3, 1, 2], vec![1]));
    assert_eq!(found.words, ["w3", "zebra", "w2"]);
    assert_eq!(sentence(""), Sentence::default());
    assert_eq!(sentence("w2 <eos>\r"), sentence("w2"), "an end that is written out");
    assert_eq!(sentence("<eos> w2").ids, [0, 2]);
    assert_eq!(sentence("<unk>").unseen, [0usize; 0], "one that the text has itself is not unseen");
    let closed = Vocabulary::from_text(Path::new("v"), b"<eos>\na\n").unwrap();
    let error = Sentence::at(Path::new("in.txt"), 7, "a b", &closed, false).unwrap_err().to_string();
    assert!(error.starts_with("in.txt:7: the word `b` is not among the model's 2 words, and it has no `<unk>`"));
    assert!(Sentence::new("b", &closed, false).unwrap_err().to_string().starts_with("the sentence: the word `b`"));
}

#[test]
fn continuations_follow_from_their_seed_alone() {
    let model = model(61, 24, false);
    let sampling = Sampling { temperature: 1.5, ..Sampling::default() };
    let text = |batch: usize, threads: usize, samples: &[u64]| {
        let mut reader = reader(&model, Isa::detect(), threads, batch);
        let new = |&sample: &u64| Continuation::new([0, 5, 9, 2][..=sample as usize % 4].to_vec(), sampling, 3, sample);
        let mut all: Vec<Continuation> = samples.iter().map(new).collect();
        let mut words = vec![Vec::new(); samples.len()];
        for _ in 0..20 {
            let mut all: Vec<&mut Continuation> = all.iter_mut().collect();
            for (words, word) in words.iter_mut().zip(reader.extend(&mut all, 2)) {
                assert!(word.id != 1 && word.logprob < 0.0 && word.likeliest.len() == 2);
                words.push(word.id);
            }
        }
        words
    };
    let all = text(1, 1, &[0, 1, 2, 3, 4, 5]);
    assert_eq!(text(4, 2, &[0, 1, 2, 3, 4, 5]), all);
    assert_eq!(text(80, 3, &[5, 3]), [all[5].clone(), all[3].clone()]);
    assert!((0..6).all(|i| (0..i).all(|j| all[i] != all[j])));

    // Words that are given are read like words that were drawn.
    let mut reader = reader(&model, Isa::detect(), 1, 2);
    let mut given = Continuation::new(vec![0, 5, 9], sampling, 3, 0);
    given.push(&[2, 2]);
    let mut prompted = Continuation::new(vec![0, 5, 9, 2, 2], sampling, 3, 0);
    assert_eq!(reader.extend(&mut [&mut given], 0), reader.extend(&mut [&mut prompted], 0));
}

#[test]
fn words_are_drawn_by_their_shares() {
    let y = [0.1f32, 0.4, 0.0, 0.3, 0.2];
    let shares = |sampling: Sampling, unk: Option<u32>| {
        let mut counts = [0usize; 5];
        (0..10_000).for_each(|i| counts[sampling.draw(&y, unk, (f64::from(i) + 0.5) / 1e4) as usize] += 1);
        counts.map(|n| (n as f64 / 100.0).round() / 100.0)
    };
    let all = Sampling { unk: true, ..Sampling::default() };
    assert_eq!(shares(all, Some(3)), [0.1, 0.4, 0.0, 0.3, 0.2]);
    assert_eq!(shares(Sampling::default(), None), [0.1, 0.4, 0.0, 0.3, 0.2]);
    assert_eq!(shares(Sampling::default(), Some(3)), [0.14, 0.57, 0.0, 0.0, 0.29]);
    // At a temperature of one half the shares are the squares: 0.01, 0.16, 0.09 and 0.04 of 0.3.
    assert_eq!(shares(Sampling { temperature: 0.5, ..all }, None), [0.03, 0.53, 0.0, 0.3, 0.13]);
    assert_eq!(shares(Sampling { temperature: 0.0, ..all }, None), [0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(shares(Sampling { temperature: 1e-9, ..all }, None), [0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(shares(Sampling { top_k: 2, ..all }, None), [0.0, 0.57, 0.0, 0.43, 0.0]);
    assert_eq!(shares(Sampling { top_k: 9, ..all }, None), [0.1, 0.4, 0.0, 0.3, 0.2]);
    // 0.4 is not enough for 0.5, 0.4 + 0.3 is.
    assert_eq!(shares(Sampling { top_p: 0.5, ..all }, None), [0.0, 0.57, 0.0, 0.43, 0.0]);
    assert_eq!(shares(Sampling { top_p: 0.0, ..all }, None), [0.0, 1.0, 0.0, 0.0, 0.0]);
    // Of the two likeliest, the first alone has 0.57.
    assert_eq!(shares(Sampling { top_k: 2, top_p: 0.5, ..all }, None), [0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(all.draw(&y, None, 1.0 - f64::EPSILON / 2.0), 4);
}

#[test]
fn neighbours_point_the_same_way() {
    let vocabulary = Vocabulary::from_text(Path::new("v"), b"<eos>\nnorth\nsouth\neast\nnorthish\nnowhere\n").unwrap();
    let vectors = [1.0, 1.0, 0.0, 2.0, 0.0, -3.0, 1.0, 0.0, 0.1, 1.0, 0.0, 0.0f32];
    let found = neighbours(&vectors, &vocabulary, 1, 3);
    let words: Vec<&str> = found.iter().map(|n| n.word.as_str()).collect();
    assert_eq!(words, ["northish", "<eos>", "east"]);
    assert!((found[1].cosine - 0.5f64.sqrt()).abs() < 1e-12);
    assert_eq!(neighbours(&vectors, &vocabulary, 1, 100).len(), 5);
    assert_eq!(neighbours(&vectors, &vocabulary, 1, 100)[4].cosine, -1.0);

    assert_eq!(similar_spelling(&vocabulary, "North"), Some("north"));
    assert_eq!(similar_spelling(&vocabulary, "nroth"), None, "two letters of five are too many");
    assert_eq!(similar_spelling(&vocabulary, "souht"), None);
    assert_eq!(similar_spelling(&vocabulary, "sough"), Some("south"));
    assert_eq!(similar_spelling(&vocabulary, "nowheer"), Some("nowhere"));
    assert_eq!(similar_spelling(&vocabulary, "zebra"), None);
}

/// Every way of predicting, with one model and with several.
fn ensembles(params: &LoadedModel) -> Vec<Ensemble> {
    let network = |seed: u64| {
        let mut weights = Params::clone(params.params().unwrap());
        weights.data_mut().iter_mut().for_each(|w| *w *= 1.0 - 0.1 * seed as f32);
        LoadedModel::network("m", "re", weights, params.vocabulary.clone())
    };
    let ngrams = || {
        let text: Vec<u32> = (0..4000u32).map(|i| (i * i / 7 + i / 3) % 61).collect();
        let (model, _) = NgramModel::train(&text, 61, 0, 3).unwrap();
        LoadedModel::ngrams("n", "kn", model, params.vocabulary.clone())
    };
    let way = NeuralSettings::default();
    let cache = Some(CacheSettings { window: 30, theta: 0.5, lambda: 0.3 });
    let dynamic = Some(DynamicSettings { segment: 7, rate: 0.2, ..DynamicSettings::of(DynamicForm::Sgd) });
    let monte_carlo = Some(MonteCarloSettings { samples: 3, keep: KeepProb(0.7), seed: 1, masks: Dropout::default() });
    let ways = [
        NeuralSettings { temperature: 1.3, ..way },
        NeuralSettings { cache, ..way },
        NeuralSettings { dynamic, ..way },
        NeuralSettings { dynamic, cache, ..way },
        NeuralSettings { monte_carlo, ..way },
    ];
    let mut all = vec![Ensemble::from(ngrams())];
    for way in ways {
        let mut one = Ensemble::from(network(0));
        one.set_ways(vec![way]).unwrap();
        all.push(one);
        for mix in [Mix::Linear, Mix::Log] {
            let mut mixed = Ensemble::new(vec![network(0), ngrams(), network(1)], mix).unwrap();
            mixed.set_ways(vec![way; 3]).unwrap();
            mixed.set_weights(Some(vec![0.5, 0.3, 0.2])).unwrap();
            all.push(mixed);
        }
    }
    for i in 0..all.len() {
        let mut cached = all[i].clone();
        cached.recency = Some(RecencySettings::default());
        all.push(cached);
    }
    all
}

#[test]
fn every_way_of_predicting_reads_as_its_predictor_and_goes_back_to_its_memories() {
    let model = model(61, 24, true);
    let sentences: Vec<Sentence> = sentences(&model, 16).into_iter().filter(|s| s.ids.len() < 100).collect();
    let near = |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4);
    for ensemble in ensembles(&model) {
        let (team, isa, what) = (Arc::new(Team::new(1)), Isa::detect(), ensemble.title());
        let mut reader = ensemble.reader(&team, isa, None).unwrap();
        assert!(!reader.is_side_by_side());
        // Each sentence by itself is what the predictor says.
        let mut predictor = ensemble.predictor(&team, isa).unwrap();
        for (sentence, scored) in sentences.iter().zip(reader.score(&sentences)) {
            predictor.reset();
            let text = [&[0], &sentence.ids[..], &[0]].concat();
            let p: Vec<f64> = predictor.target_probabilities(&text, &|| false).unwrap();
            assert_eq!(scored.logprobs, p.iter().map(|p| p.ln()).collect::<Vec<_>>(), "{what}");
        }
        // Hypotheses that are tried out leave no trace in the text that goes on.
        let (mut memory, mut carried) = (Memory::default(), Memory::default());
        let straight = reader.score_on(&mut memory, &sentences);
        for (i, expected) in straight.iter().enumerate() {
            let tried = reader.score_after(Some(&carried), &sentences[i..]);
            assert!(near(&tried[0].logprobs, &expected.logprobs), "{what}, sentence {i} tried");
            // In any order: none of them is read after another.
            let backwards: Vec<Sentence> = sentences[i..].iter().rev().cloned().collect();
            for (one, other) in tried.iter().rev().zip(reader.score_after(Some(&carried), &backwards)) {
                assert!(near(&one.logprobs, &other.logprobs), "{what}, tried after sentence {i}");
            }
            let read = reader.score_on(&mut carried, &sentences[i..=i]);
            assert!(near(&read[0].logprobs, &expected.logprobs), "{what}, sentence {i} read");
        }
        // What is drawn after a memory is what is drawn after its text.
        let text: Vec<u32> = sentences.iter().take(3).flat_map(|s| [&[0], &s.ids[..]].concat()).collect();
        let memory = reader.read(&[Passage { inputs: &text, keep: true, ..Passage::default() }]).remove(0).memory;
        let sampling = Sampling::default();
        let mut drawn = [Vec::new(), Vec::new()];
        let texts = vec![Continuation::new(text, sampling, 1, 1), Continuation::after(memory.unwrap(), sampling, 1, 1)];
        reader.tell(texts, 9, 0, &mut |number, word| {
            drawn[number].push(word.id);
            true
        });
        assert!(drawn[0].len() == 9 && drawn[0] == drawn[1], "{what}: {drawn:?}");
    }
}
