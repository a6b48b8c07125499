//! A network with a pointer says what it points to.

#![cfg(unix)]

mod common;
mod serving;

use common::{Place, bowline, finish};
use serde_json::json;
use serving::Serving;

#[test]
fn the_pointer_is_shown_by_next_and_by_the_server() {
    let place = Place::new();
    let mut command = bowline(["train", "--threads", "1", "--min-count", "1", "--epochs", "1"]);
    command.args(["--model", "pointer-sentinel", "--set", "hidden=8", "--set", "network.pointer=10"]);
    let run = place.path("run");
    finish(command.arg("--data").arg(place.path("corpus")).arg("--out").arg(&run)).success();
    let mut command = bowline(["next", "--json", "--explain", "--threads", "1"]);
    let answer = finish(command.arg(&run).arg("dobaba bababa dobaba")).json();
    let pointer = &answer["explanation"]["pointer"];
    let words = pointer["words"].as_array().unwrap();
    let shares: Vec<f64> = words.iter().map(|word| word["share"].as_f64().unwrap()).collect();
    let whole = pointer["softmax"].as_f64().unwrap() + shares.iter().sum::<f64>();
    // <eos> and three words, none left out.
    assert!(shares.len() == 4 && (whole - 1.0).abs() < 1e-5 && shares.is_sorted_by(|a, b| a >= b), "{pointer}");
    let mut back: Vec<u64> = words.iter().map(|word| word["back"].as_u64().unwrap()).collect();
    back.sort_unstable();
    assert_eq!(back, [1, 2, 3, 4]);
    // The server says the same, where it is asked.
    let server = Serving::new(&[&run], &[] as &[&str]);
    let served = server.post("/api/next", &json!({"text": "dobaba bababa dobaba", "explain": true})).1;
    assert_eq!(served["explanation"], answer["explanation"]);
    assert!(server.post("/api/next", &json!({"text": "dobaba"})).1.get("explanation").is_none());
    let said = finish(bowline(["next", "--explain"]).arg(&run).arg("dobaba")).success().stdout;
    assert!(said.contains("%  the softmax\n") && said.contains(", the last word\n"), "{said}");
}
