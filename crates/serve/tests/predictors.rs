//! Models that do not predict as they were trained: every answer is the predictor's, and no request leaves a trace.

mod common;

use bowline::predictor::{CacheSettings, DynamicForm, DynamicSettings, Ensemble, Mix, NeuralSettings, Predictor};
use bowline_kernels::{Isa, Team};
use bowline_serve::ServerOptions;
use common::{Running, model};
use serde_json::{Value, json};
use std::sync::Arc;

const TEXT: &str = "the cat sat on the mat . the cat sat";

/// Learns fast and remembers much, so that whatever stays behind is seen.
fn settings() -> NeuralSettings {
    let dynamic = DynamicSettings { form: DynamicForm::Sgd, segment: 3, rate: 0.3, decay: 0.01, epsilon: 1.0 };
    let cache = CacheSettings { window: 50, theta: 0.8, lambda: 0.4 };
    NeuralSettings { dynamic: Some(dynamic), cache: Some(cache), ..NeuralSettings::default() }
}

/// A mixture of a network that learns and remembers with another one as trained.
fn ensemble() -> Ensemble {
    let mut ensemble = Ensemble::new(vec![model("one", 1), model("one", 2)], Mix::Linear).unwrap();
    ensemble.set_ways(vec![settings(), NeuralSettings::default()]).unwrap();
    ensemble.set_weights(Some(vec![0.8, 0.2])).unwrap();
    ensemble
}

fn predictor() -> Box<dyn Predictor> {
    ensemble().predictor(&Arc::new(Team::new(1)), Isa::detect()).unwrap()
}

fn running(threads: usize) -> Running {
    let models = [ensemble(), model("two", 2).into()];
    Running::serving(models, ServerOptions { threads, ..ServerOptions::default() })
}

fn ids(text: &str) -> Vec<u32> {
    let vocabulary = model("one", 1).vocabulary;
    let words = text.split_whitespace().map(|word| vocabulary.id(word).unwrap());
    std::iter::once(vocabulary.eos()).chain(words).collect()
}

/// The distribution after a text.
fn after(predictor: &mut dyn Predictor, ids: &[u32]) -> Vec<f32> {
    let mut y = vec![0.0; predictor.vocab()];
    predictor.reset();
    predictor.observe(ids);
    predictor.distribution(&mut y);
    y
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// What is the same each time the same is asked: all but the answer's number and time.
fn essence(mut answer: Value) -> String {
    for name in ["id", "created"] {
        answer.as_object_mut().unwrap().remove(name);
    }
    answer.to_string()
}

fn requests() -> Vec<Value> {
    vec![
        json!({"prompt": TEXT, "max_tokens": 12, "seed": 5, "logprobs": 3, "echo": true, "n": 2, "unk": true}),
        json!({"prompt": [TEXT, "a dog ran\nthe dog"], "max_tokens": 6, "seed": 6, "temperature": 0.7}),
        json!({"prompt": TEXT, "max_tokens": 0, "echo": true, "logprobs": 0, "seed": 7}),
    ]
}

#[test]
fn every_number_is_the_predictor_s() {
    let server = running(1);
    let (mut predictor, ids) = (predictor(), ids(TEXT));
    let words = model("one", 1).vocabulary;
    let logprobs: Vec<f64> = predictor.target_probabilities(&ids, &|| false).unwrap().iter().map(|p| p.ln()).collect();
    // Without and with the likeliest words besides.
    for top in [0, 2] {
        let request = json!({"prompt": TEXT, "echo": true, "logprobs": top, "max_tokens": 0});
        let said = server.complete(request)["choices"][0]["logprobs"].clone();
        assert_eq!(numbers(&said["token_logprobs"]), logprobs);
        for t in 0..if top > 0 { logprobs.len() } else { 0 } {
            let y = after(predictor.as_mut(), &ids[..=t]);
            let most = (0..y.len() as u32).max_by(|&a, &b| y[a as usize].total_cmp(&y[b as usize])).unwrap();
            let (piece, known) = (if most == words.eos() { "\n" } else { words.word(most) }, &said["top_logprobs"][t]);
            let known = known.as_object().unwrap().iter().find(|(word, _)| word.trim_matches(' ') == piece);
            let (_, logprob) = known.unwrap_or_else(|| panic!("{piece} {said}"));
            assert!((f64::from(y[most as usize]).ln() - logprob.as_f64().unwrap()).abs() < 1e-5, "{piece}");
        }
    }
    let scored = server.post("/api/score", json!({"text": TEXT, "carry": true}).to_string()).json();
    let scored: Vec<f64> = scored["words"].as_array().unwrap().iter().map(|w| w["logprob"].as_f64().unwrap()).collect();
    assert_eq!(scored[..logprobs.len()], logprobs);

    let y = after(predictor.as_mut(), &ids);
    let next = server.post("/api/next", json!({"text": TEXT, "k": 14}).to_string()).json();
    let next = next["next"].as_array().unwrap();
    assert_eq!(next.len(), y.len());
    for candidate in next {
        let id = words.id(candidate["word"].as_str().unwrap()).unwrap();
        assert_eq!(candidate["logprob"].as_f64().unwrap(), f64::from(y[id as usize]).ln());
    }

    // Words that are drawn have the probabilities after what was drawn before them, whatever the temperature.
    for temperature in [0.0, 1.0, 3.0] {
        let request = json!({"prompt": TEXT, "max_tokens": 8, "logprobs": 0, "seed": 1, "temperature": temperature});
        let said = server.complete(request)["choices"][0]["logprobs"].clone();
        let mut text = ids.clone();
        for (token, logprob) in said["tokens"].as_array().unwrap().iter().zip(numbers(&said["token_logprobs"])) {
            let y = after(predictor.as_mut(), &text);
            let id = match token.as_str().unwrap() {
                "\n" => words.eos(),
                token => words.id(token.trim_start()).unwrap(),
            };
            assert!((f64::from(y[id as usize]).ln() - logprob).abs() < 1e-5, "{token}");
            let largest = y.iter().enumerate().filter(|(i, _)| Some(*i as u32) != words.unk()).map(|(_, p)| *p);
            assert!(temperature > 0.0 || y[id as usize] >= 0.99999 * largest.fold(0.0, f32::max));
            text.push(id);
        }
    }
}

#[test]
fn what_one_request_teaches_never_reaches_another() {
    let server = running(1);
    let fresh = running(1);
    let lesson = "dog ran fast . ".repeat(40);
    for request in requests() {
        let before = essence(server.complete(request.clone()));
        // Something else, long enough to be learned and remembered, and one that is given up in the middle.
        server.complete(json!({"prompt": lesson, "max_tokens": 20, "echo": true, "logprobs": 1}));
        let body = json!({"prompt": lesson, "max_tokens": 4000, "stream": true, "stop": ["never"]}).to_string();
        let mut given_up = server.connect();
        std::io::Write::write_all(&mut given_up, &common::post("/v1/completions", body.as_bytes())).unwrap();
        drop(given_up);
        assert_eq!(essence(server.complete(request.clone())), before);
        assert_eq!(essence(fresh.complete(request)), before);
    }
}

#[test]
fn requests_at_the_same_time_do_not_see_each_other() {
    let alone = running(1);
    let expected: Vec<String> = requests().into_iter().map(|request| essence(alone.complete(request))).collect();
    let server = running(2);
    std::thread::scope(|scope| {
        for client in 0..6 {
            let (server, expected) = (&server, &expected);
            scope.spawn(move || {
                for round in 0..4 {
                    let number = (client + round) % 3;
                    assert_eq!(essence(server.complete(requests().remove(number))), expected[number]);
                    // The other model shares the workers.
                    let plain = json!({"prompt": TEXT, "max_tokens": 5, "model": "two", "seed": 1});
                    server.complete(plain);
                }
            });
        }
    });
}

#[test]
fn a_stream_says_the_same_and_the_card_says_how_it_predicts() {
    let server = running(1);
    let request = json!({"prompt": TEXT, "max_tokens": 12, "seed": 5, "unk": true});
    let whole = server.complete(request.clone())["choices"][0]["text"].as_str().unwrap().to_owned();
    let mut streamed = request;
    streamed["stream"] = true.into();
    let answer = server.post("/v1/completions", streamed.to_string());
    let body = String::from_utf8(answer.body).unwrap();
    let events = body.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|event| *event != "[DONE]");
    let text: String = events
        .map(|event| serde_json::from_str::<Value>(event).unwrap())
        .filter_map(|event| event["choices"][0]["text"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(text, whole);
    let models = server.get("/v1/models").json();
    assert_eq!(
        models["data"][0]["predictor"],
        json!({"title": "re (dynamic + cache) + re", "details": ensemble().details()})
    );
    assert_eq!(models["data"][1]["predictor"], Value::Null);
    assert_eq!(models["data"][0]["hidden"], 12);
}

#[test]
fn what_cannot_predict_is_not_served() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut lacking = ensemble();
    // The scale of the gradients, which this form needs, is not there.
    let dynamic = Some(DynamicSettings::of(DynamicForm::Rms));
    lacking.set_ways(vec![NeuralSettings { dynamic, ..NeuralSettings::default() }; 2]).unwrap();
    let started =
        bowline_serve::Server::new([lacking], listener, ServerOptions { threads: 2, ..ServerOptions::default() });
    assert!(started.is_err_and(|error| error.to_string().contains("needs the scale of the gradients")));
}
