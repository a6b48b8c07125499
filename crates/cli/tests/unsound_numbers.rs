//! Impossible probabilities are errors that name their origin.

mod common;

use common::{Place, bowline, finish};
use std::fs;

#[test]
fn an_arpa_file_whose_back_off_weights_make_probabilities_above_1_is_found_out() {
    let place = Place::new();
    let arpa = "\\data\\\nngram 1=4\nngram 2=1\n\n\\1-grams:\n-0.6\t<s>\t30\n-0.6\t</s>\n-0.6\ta\n-0.6\t<unk>\n\n\
                \\2-grams:\n-0.3\t<s> a\n\n\\end\\\n";
    fs::write(place.path("model.arpa"), arpa).unwrap();
    fs::write(place.path("text"), "a\n\n").unwrap();
    let (arpa, model, text) = (place.path("model.arpa"), place.path("model"), place.path("text"));
    finish(bowline(["arpa", "read", "--out"]).arg(&model).arg(arpa)).success();
    let ended = finish(bowline(["score", "--threads", "1"]).arg(&model).arg(text));
    let error = place.plain(ended.error());
    assert!(error.starts_with("DIR/model: predictions: the probability of word 1 of the text is 2.5"), "{error}");
    assert!(error.contains("e29, above 1\n  try: a model whose probabilities sum to 1"), "{error}");
    let ended = finish(bowline(["eval", "--threads", "1", "--data"]).arg(place.path("corpus")).arg(&model));
    assert!(ended.error().contains("above 1"), "{}", ended.error());
}

#[test]
fn weights_that_nothing_can_be_raised_to_are_refused() {
    let place = Place::new();
    let run = place.trained("run");
    let mut command = bowline(["eval", "--threads", "1", "--mix", "log", "--weights", "1e308,1e308", "--data"]);
    let ended = finish(command.arg(place.path("corpus")).arg(&run).arg(&run));
    assert!(ended.error().contains("setting `weights`: 1"), "{}", ended.error());
    assert!(ended.error().contains("weights of at most 1000"), "{}", ended.error());
}

#[test]
fn learning_that_diverges_is_an_error_and_no_perplexity() {
    let place = Place::new();
    let run = place.trained("run");
    let mut command = bowline(["eval", "--threads", "1", "--dynamic", "--dynamic-form", "sgd"]);
    command.args(["--dynamic-rate", "1e30", "--data"]).arg(place.path("corpus")).arg(&run);
    let ended = finish(&mut command);
    assert!(ended.error().contains("predictions: the probability of word"), "{}", ended.error());
    assert!(ended.error().contains("is not a number\n  try: a lower --dynamic-rate"), "{}", ended.error());
}
