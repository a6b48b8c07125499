//! One choice of an answer: a prompt's continuation, with the prompt before it if that was asked for.

use super::request::CompletionRequest;
use super::stop::StopWatch;
use crate::prompt::Pieces;
use bowline::loaded_model::LoadedModel;
use bowline::score::{Reading, Word};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The log-probabilities of some tokens, in four lists of the same length.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Logprobs {
    /// The tokens as pieces of text.
    pub tokens: Vec<String>,
    /// Natural logarithms of their probabilities; none for an `<eos>` that the prompt begins with.
    pub token_logprobs: Vec<Option<f64>>,
    /// The likeliest tokens there, and the token itself.
    pub top_logprobs: Vec<Option<BTreeMap<String, f64>>>,
    /// Where each begins, in characters from the beginning of the prompt.
    pub text_offset: Vec<usize>,
}

/// What there is to say about a choice: all of it, or what is new.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saying {
    /// Text.
    pub text: String,
    /// Its tokens, if they are wanted.
    pub logprobs: Option<Logprobs>,
}

impl Saying {
    fn new(request: &CompletionRequest) -> Saying {
        Saying { text: String::new(), logprobs: request.logprobs.map(|_| Logprobs::default()) }
    }

    /// Adds what came later.
    pub fn append(&mut self, mut later: Saying) {
        self.text.push_str(&later.text);
        if let (Some(all), Some(new)) = (&mut self.logprobs, &mut later.logprobs) {
            all.tokens.append(&mut new.tokens);
            all.token_logprobs.append(&mut new.token_logprobs);
            all.top_logprobs.append(&mut new.top_logprobs);
            all.text_offset.append(&mut new.text_offset);
        }
    }
}

/// A choice on its way.
#[derive(Debug)]
pub struct Choice {
    prompt: usize,
    pieces: Pieces,
    /// Characters before the next token.
    offset: usize,
    watch: StopWatch,
    words_left: usize,
    /// Words drawn.
    pub drawn: usize,
    /// Why it ended: `stop` or `length`.
    pub finish: Option<&'static str>,
}

impl Choice {
    /// A continuation of prompt number `prompt`.
    pub fn new(request: &CompletionRequest, prompt: usize) -> Choice {
        let (pieces, offset) = if request.echo { (Pieces::new(), 0) } else { request.prompts[prompt].joint };
        Choice {
            prompt,
            pieces,
            offset,
            watch: StopWatch::new(Arc::clone(&request.stops)),
            words_left: request.words,
            drawn: 0,
            finish: (request.words == 0).then_some("length"),
        }
    }

    /// The prompt, if it is to be said.
    pub fn echo(&mut self, model: &LoadedModel, request: &CompletionRequest, reading: &Reading) -> Saying {
        let mut saying = Saying::new(request);
        if !request.echo {
            return saying;
        }
        let prompt = &request.prompts[self.prompt];
        let unscored = usize::from(prompt.begins_itself(model));
        for (at, &id) in prompt.ids.iter().enumerate() {
            let logprob = at.checked_sub(unscored).and_then(|at| reading.logprobs.get(at)).copied();
            let likeliest = at.checked_sub(unscored).and_then(|at| reading.likeliest.get(at));
            let piece = self.token(model, &mut saying, id, logprob, likeliest.map_or(&[], Vec::as_slice));
            saying.text.push_str(&piece);
        }
        saying
    }

    /// The next word.
    pub fn word(&mut self, model: &LoadedModel, request: &CompletionRequest, word: &Word) -> Saying {
        let mut saying = Saying::new(request);
        if self.finish.is_some() {
            return saying;
        }
        self.drawn += 1;
        self.words_left -= 1;
        let piece = self.token(model, &mut saying, word.id, Some(word.logprob), &word.likeliest);
        // The end of the sentence is the end of the text, and a token, but not a part of the text.
        let end = word.id == model.vocabulary.eos();
        if !end {
            saying.text = self.watch.push(&piece);
        }
        if end || self.watch.stopped() {
            self.finish = Some("stop");
        } else if self.words_left == 0 {
            self.finish = Some("length");
        }
        if self.finish.is_some() {
            saying.text += &self.watch.finish();
        }
        saying
    }

    /// Notes a token down and says its piece.
    fn token(
        &mut self,
        model: &LoadedModel,
        saying: &mut Saying,
        id: u32,
        logprob: Option<f64>,
        likeliest: &[(u32, f64)],
    ) -> String {
        let before = self.pieces;
        let piece = self.pieces.next(model, id);
        if let Some(logprobs) = &mut saying.logprobs {
            let top = logprob.filter(|_| !likeliest.is_empty()).map(|own| {
                let mut top: BTreeMap<String, f64> =
                    likeliest.iter().map(|&(id, logprob)| (before.peek(model, id), logprob)).collect();
                top.insert(piece.clone(), own);
                top
            });
            logprobs.tokens.push(piece.clone());
            logprobs.token_logprobs.push(logprob);
            logprobs.top_logprobs.push(top);
            logprobs.text_offset.push(self.offset);
        }
        self.offset += piece.chars().count();
        piece
    }
}
