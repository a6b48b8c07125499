//! `POST /v1/completions`, as OpenAI's API has it.

mod choice;
mod request;
mod stop;

use crate::app::{App, Shared, json};
use crate::engine::{Draw, Job, Part, Sequence};
use crate::problem::Problem;
use crate::stream::EventStream;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use choice::{Choice, Saying};
use request::CompletionRequest;
pub use request::{fresh_seed, sampling};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout_at};

/// Answers a completions request.
pub async fn completions(State(app): Shared, request: Request) -> Result<Response, Problem> {
    let fields = app.fields(request).await?;
    let request = CompletionRequest::new(&app, &fields)?;
    let parts = app.engine.submit(request.job(&app))?;
    let deadline = Instant::now() + app.limits.request_time;
    let answer = Completion::new(app, request);
    if answer.request.stream { Ok(answer.stream(parts, deadline)) } else { answer.whole(parts, deadline).await }
}

impl CompletionRequest {
    /// What the engine is to do.
    fn job(&self, app: &App) -> Job {
        let model = app.models[self.model].model();
        let top = self.logprobs.unwrap_or(0);
        let sequence = |(number, prompt): (usize, &request::Prompt)| {
            let start = (!prompt.begins_itself(model)).then(|| model.vocabulary.eos());
            let draw = |choice: usize| {
                let sample = (number * self.choices + choice) as u64;
                Draw { sampling: self.sampling, seed: self.seed, sample, words: self.words, top }
            };
            Sequence {
                inputs: start.into_iter().chain(prompt.ids.iter().copied()).collect(),
                score: self.echo && self.logprobs.is_some(),
                top,
                draws: if self.words == 0 { Vec::new() } else { (0..self.choices).map(draw).collect() },
            }
        };
        Job { model: self.model, sequences: self.prompts.iter().enumerate().map(sequence).collect() }
    }
}

/// An answer in the making.
struct Completion {
    app: Arc<App>,
    request: CompletionRequest,
    id: String,
    created: u64,
    choices: Vec<Choice>,
}

impl Completion {
    fn new(app: Arc<App>, request: CompletionRequest) -> Completion {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let choices = (0..request.prompts.len() * request.choices).map(|i| Choice::new(&request, i / request.choices));
        Completion {
            id: format!("cmpl-{:x}-{}", app.started, NUMBER.fetch_add(1, Ordering::Relaxed)),
            created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
            choices: choices.collect(),
            app,
            request,
        }
    }

    /// Takes a part of the engine's answer; what there is to say, by the number of the choice.
    fn take(&mut self, part: Part) -> Vec<(usize, Saying)> {
        let (model, request) = (self.app.models[self.request.model].model(), &self.request);
        match part {
            Part::Read(sequence, reading) => (0..request.choices)
                .map(|draw| sequence * request.choices + draw)
                .map(|number| (number, self.choices[number].echo(model, request, &reading)))
                .collect(),
            Part::Word(sequence, draw, word) => {
                let number = sequence * request.choices + draw;
                vec![(number, self.choices[number].word(model, request, &word))]
            }
        }
    }

    /// Whether nothing more is to come.
    fn done(&self) -> bool {
        self.choices.iter().all(|choice| choice.finish.is_some())
    }

    /// The object around some choices.
    fn envelope(&self, choices: Vec<Value>) -> Value {
        let model = &self.app.models[self.request.model].name;
        json!({"id": self.id, "object": "text_completion", "created": self.created, "model": model, "choices": choices})
    }

    fn choice(&self, number: usize, saying: &Saying) -> Value {
        let finish = self.choices[number].finish;
        json!({"text": saying.text, "index": number, "logprobs": saying.logprobs, "finish_reason": finish})
    }

    fn usage(&self) -> Value {
        let prompts: usize = self.request.prompts.iter().map(|prompt| prompt.ids.len()).sum();
        let drawn: usize = self.choices.iter().map(|choice| choice.drawn).sum();
        json!({"prompt_tokens": prompts, "completion_tokens": drawn, "total_tokens": prompts + drawn})
    }

    /// All at once.
    async fn whole(mut self, mut parts: UnboundedReceiver<Part>, deadline: Instant) -> Result<Response, Problem> {
        let mut sayings: Vec<Option<Saying>> = self.choices.iter().map(|_| None).collect();
        let mut unread = self.request.prompts.len();
        while unread > 0 || !self.done() {
            let part = next_part(&mut parts, deadline).await?;
            unread -= usize::from(matches!(part, Part::Read(..)));
            for (number, saying) in self.take(part) {
                match &mut sayings[number] {
                    Some(before) => before.append(saying),
                    none => *none = Some(saying),
                }
            }
        }
        let choices = sayings.into_iter().enumerate().map(|(i, saying)| self.choice(i, &saying.unwrap_or_default()));
        let mut answer = self.envelope(choices.collect());
        answer["usage"] = self.usage();
        answer["seed"] = self.request.seed.into();
        Ok(json(&answer))
    }

    /// Bit by bit, as server-sent events.
    fn stream(mut self, mut parts: UnboundedReceiver<Part>, deadline: Instant) -> Response {
        let (events, body) = EventStream::new();
        tokio::spawn(async move {
            let mut unread = self.request.prompts.len();
            while unread > 0 || !self.done() {
                let part = match next_part(&mut parts, deadline).await {
                    Ok(part) => part,
                    Err(problem) => {
                        events.send(&problem.to_json()).await;
                        return;
                    }
                };
                let prompt = matches!(part, Part::Read(..));
                unread -= usize::from(prompt);
                for (number, saying) in self.take(part) {
                    let empty = prompt && !self.request.echo && self.request.words > 0;
                    if !empty && !events.send(&self.envelope(vec![self.choice(number, &saying)]).to_string()).await {
                        return;
                    }
                }
            }
            let mut last = self.envelope(Vec::new());
            last["usage"] = self.usage();
            last["seed"] = self.request.seed.into();
            let _ = events.send(&last.to_string()).await && events.send("[DONE]").await;
        });
        body.into_response()
    }
}

/// The next part of the engine's answer.
pub async fn next_part(parts: &mut UnboundedReceiver<Part>, deadline: Instant) -> Result<Part, Problem> {
    match timeout_at(deadline, parts.recv()).await {
        Ok(Some(part)) => Ok(part),
        Ok(None) => Err(Problem::internal("the engine has stopped")),
        Err(_) => Err(Problem::busy("the answer was not ready in time; ask for less, or try again later")),
    }
}
