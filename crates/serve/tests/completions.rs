//! What the completions API answers, and that it is the model's own numbers.

mod common;

use bowline::score::{Reader, Sentence};
use bowline_kernels::{Isa, Team};
use common::{Running, model};
use serde_json::{Value, json};
use std::sync::Arc;

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap_or(f64::NAN)).collect()
}

fn scored(lines: &[&str]) -> Vec<Vec<f64>> {
    let model = Arc::new(model("one", 1));
    let mut reader = Reader::new(Arc::clone(&model), &Arc::new(Team::new(1)), Isa::detect()).unwrap();
    let sentences: Vec<_> = lines.iter().map(|line| Sentence::new(line, &model.vocabulary, false).unwrap()).collect();
    reader.score(&sentences).into_iter().map(|scored| scored.logprobs).collect()
}

#[test]
fn echo_gives_the_log_probabilities_of_score_in_any_form_of_prompt() {
    let server = Running::new();
    let lines = ["the cat sat on the mat .", "a dog ran", "zebra the ."];
    let expected = scored(&lines);
    let echo = |prompt: Value| server.complete(json!({"prompt": prompt, "echo": true, "logprobs": 0, "max_tokens": 0}));
    let texts: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
    let together = echo(json!(texts));
    for (i, text) in texts.iter().enumerate() {
        let alone = echo(json!(text));
        assert_eq!(alone["choices"][0]["logprobs"], together["choices"][i]["logprobs"]);
        assert_eq!(numbers(&alone["choices"][0]["logprobs"]["token_logprobs"]), expected[i], "{text}");
        let tokens = server.post("/tokenize", json!({"prompt": text}).to_string()).json()["tokens"].clone();
        assert_eq!(echo(json!([tokens]))["choices"][0]["logprobs"], alone["choices"][0]["logprobs"]);
        assert_eq!(echo(json!(tokens))["choices"][0]["logprobs"], alone["choices"][0]["logprobs"]);
        // Begun with an `<eos>` of its own, it is the same text; that one has no probability.
        let begun = &echo(json!(format!("<eos> {text}")))["choices"][0]["logprobs"];
        assert_eq!(begun["token_logprobs"][0], Value::Null);
        assert_eq!(numbers(&begun["token_logprobs"])[1..], expected[i]);
    }
    // The first of two line ends is what the text begins after; the second is an empty sentence.
    let empty = &echo(json!("\n\n"))["choices"][0]["logprobs"]["token_logprobs"];
    assert_eq!((&empty[0], empty[1].as_f64()), (&Value::Null, Some(scored(&[""])[0][0])));
}

#[test]
fn tokens_offsets_and_text_belong_together() {
    let server = Running::new();
    let request =
        json!({"prompt": "the  cat\nzebra sat", "echo": true, "logprobs": 3, "max_tokens": 3, "temperature": 0});
    let choice = &server.complete(request)["choices"][0];
    let (text, logprobs) = (choice["text"].as_str().unwrap(), &choice["logprobs"]);
    assert!(text.starts_with("the cat\n<unk> sat"), "{text}");
    let tokens: Vec<&str> = logprobs["tokens"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
    let joined = tokens.concat();
    assert_eq!(joined.trim_end_matches('\n'), text);
    let offsets = numbers(&logprobs["text_offset"]);
    for (i, (&offset, token)) in offsets.iter().zip(&tokens).enumerate() {
        let rest: String = joined.chars().skip(offset as usize).collect();
        assert!(rest.starts_with(token));
        let top = logprobs["top_logprobs"][i].as_object().unwrap();
        assert!((3..=4).contains(&top.len()));
        assert_eq!(top[*token], logprobs["token_logprobs"][i]);
        // Drawn at temperature 0, the word is the likeliest, but for `<unk>`.
        let likeliest = top.iter().filter(|(word, _)| !word.contains("<unk>")).map(|(_, p)| p.as_f64().unwrap());
        if i >= 5 {
            assert_eq!(likeliest.fold(f64::NEG_INFINITY, f64::max), logprobs["token_logprobs"][i].as_f64().unwrap());
        }
    }
    assert_eq!(server.complete(json!({"prompt": "the"}))["choices"][0]["logprobs"], Value::Null);
}

#[test]
fn a_seed_gives_the_same_words_in_any_company_and_choices_differ() {
    let server = Running::new();
    let request = json!({"prompt": "the cat", "max_tokens": 12, "seed": 7, "n": 4, "model": "two"});
    let alone = server.complete(request.clone())["choices"].clone();
    let texts: Vec<&str> = alone.as_array().unwrap().iter().map(|c| c["text"].as_str().unwrap()).collect();
    assert!(texts.iter().any(|text| text != &texts[0]), "{texts:?}");
    assert!(texts.iter().all(|text| !text.contains("<unk>")), "{texts:?}");
    std::thread::scope(|scope| {
        for other in 0..8 {
            let (server, request, alone) = (&server, request.clone(), &alone);
            scope.spawn(move || {
                server.complete(
                    json!({"prompt": "a dog", "max_tokens": 5 + other, "seed": other, "echo": true, "logprobs": 2}),
                );
                assert_eq!(server.complete(request)["choices"], *alone);
            });
        }
    });
    let other = server.complete(json!({"prompt": "the cat", "max_tokens": 12, "seed": 8, "n": 4, "model": "two"}));
    assert_ne!(other["choices"], alone);
}

#[test]
fn a_stream_says_the_same_as_a_whole_answer() {
    let server = Running::new();
    for stop in [Value::Null, json!([" on the", " a"])] {
        let request = |stream: bool| {
            json!({"prompt": ["the cat", "a"], "max_tokens": 30, "seed": 3, "logprobs": 1, "n": 2, "stop": stop,
                   "echo": true, "stream": stream})
        };
        let whole = server.complete(request(false));
        let streamed = server.post("/v1/completions", request(true).to_string());
        assert_eq!(streamed.header("content-type"), Some("text/event-stream"));
        let body = String::from_utf8(streamed.body).unwrap();
        let mut events: Vec<&str> = body.split_terminator("\n\n").map(|e| e.strip_prefix("data: ").unwrap()).collect();
        assert_eq!(events.pop(), Some("[DONE]"));
        let mut texts = [const { String::new() }; 4];
        let mut tokens = [const { Vec::new() }; 4];
        let mut reasons = [const { Value::Null }; 4];
        for event in &events {
            let event: Value = serde_json::from_str(event).unwrap();
            for choice in event["choices"].as_array().unwrap() {
                let i = choice["index"].as_u64().unwrap() as usize;
                texts[i] += choice["text"].as_str().unwrap();
                tokens[i].extend(choice["logprobs"]["tokens"].as_array().unwrap().iter().cloned());
                reasons[i] = choice["finish_reason"].clone();
            }
        }
        for (i, choice) in whole["choices"].as_array().unwrap().iter().enumerate() {
            assert_eq!(choice["text"], texts[i]);
            assert_eq!(choice["logprobs"]["tokens"], json!(tokens[i]));
            assert_eq!(choice["finish_reason"], reasons[i]);
            assert!(stop.is_null() || !texts[i].contains(" on the"), "{texts:?}");
        }
        let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
        assert_eq!(last["usage"], whole["usage"]);
    }
}

#[test]
fn the_smaller_api_agrees() {
    let server = Running::new();
    let expected = scored(&["the cat zebra", "a dog"]);
    let body = json!({"text": "the cat zebra\na dog\n", "top": 2}).to_string();
    let answer = server.post("/api/score", body).json();
    let words = answer["words"].as_array().unwrap();
    let found: Vec<f64> = words.iter().map(|word| word["logprob"].as_f64().unwrap()).collect();
    assert_eq!(found, expected.concat());
    assert_eq!((&words[2]["word"], &words[2]["unknown"]), (&json!("zebra"), &json!(true)));
    assert_eq!(answer["tokens"], 7);
    let mean = expected.concat().iter().sum::<f64>() / 7.0;
    assert!((answer["perplexity"].as_f64().unwrap() - (-mean).exp()).abs() < 1e-9);

    // The next words are those whose probabilities a completion says.
    let next = server.get("/api/next?text=the+cat&k=14").json();
    let sum: f64 = next["next"].as_array().unwrap().iter().map(|next| next["probability"].as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-5, "{next}");
    let first = next["next"][0]["word"].as_str().unwrap();
    let echo =
        server.complete(json!({"prompt": format!("the cat {first}"), "echo": true, "logprobs": 0, "max_tokens": 0}));
    let logprob = echo["choices"][0]["logprobs"]["token_logprobs"][2].as_f64().unwrap();
    assert!((logprob - next["next"][0]["logprob"].as_f64().unwrap()).abs() < 1e-5);

    let generated = server.get("/api/generate?text=the+cat&words=5&seed=4&model=two").json();
    let completed = server.complete(json!({"prompt": "the cat", "max_tokens": 5, "seed": 4, "model": "two"}));
    assert_eq!(generated["text"], completed["choices"][0]["text"]);

    let near = server.get("/api/neighbours?word=cat&k=3").json();
    assert_eq!(near["neighbours"].as_array().unwrap().len(), 3);
    let models = server.get("/v1/models").json();
    assert_eq!((&models["data"][0]["id"], &models["data"][1]["id"]), (&json!("one"), &json!("two")));
}

/// `client.models.retrieve(id)` of OpenAI's client.
#[test]
fn a_model_is_found_by_its_name() {
    let server = Running::new();
    let models = server.get("/v1/models").json();
    for card in models["data"].as_array().unwrap() {
        let path = format!("/v1/models/{}", card["id"].as_str().unwrap());
        assert_eq!(server.get(&path).json(), *card);
    }
    assert_eq!(server.get("/v1/models/nobody").status, 404);
}

#[test]
fn words_have_places_on_the_map() {
    let server = Running::new();
    let words = server.get("/api/map?k=3").json()["words"].clone();
    assert_eq!(words.as_array().unwrap().len(), 3);
    assert!(words[0]["x"].as_f64().unwrap().abs() <= 1.0 && words[0]["y"].as_f64().unwrap().abs() <= 1.0, "{words}");
    // A model whose text is not at hand has no example, which is no error.
    assert_eq!(server.get("/api/example").json()["lines"], json!([]));
}
