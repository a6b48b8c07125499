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
use choice::{Choice, Logprobs, Saying};
use request::CompletionRequest;
pub use request::{fresh_seed, sampling};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, timeout_at};

/// Answers a completions request.
pub async fn completions(State(app): Shared, request: Request) -> Result<Response, Problem> {
    let fields = app.fields(request).await?;
    let request = CompletionRequest::new(&app, &fields)?;
    let room = app.reserve(request.items(app.models[request.model].model()))?;
    let parts = app.engine.submit(request.job(&app))?;
    let deadline = Instant::now() + app.limits.request_time;
    let answer = Completion::new(app, request);
    let response =
        if answer.request.stream { answer.stream(parts, deadline) } else { answer.whole(parts, deadline).await? };
    Ok(room.of(response))
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
                strangers: prompt.strangers.iter().map(|s| s.moved(usize::from(start.is_some()))).collect(),
                score: self.echo && self.logprobs.is_some(),
                top,
                draws: if self.words == 0 { Vec::new() } else { (0..self.choices).map(draw).collect() },
            }
        };
        Job { model: self.model, sequences: self.prompts.iter().enumerate().map(sequence).collect() }
    }
}

/// The object around some choices, as it is sent.
#[derive(Serialize)]
struct Envelope<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<Said<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

/// A choice, or what is new of it, as it is sent.
#[derive(Serialize)]
struct Said<'a> {
    text: &'a str,
    index: usize,
    logprobs: Option<&'a Logprobs>,
    finish_reason: Option<&'static str>,
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
    fn envelope<'a>(&'a self, choices: Vec<Said<'a>>) -> Envelope<'a> {
        let model = &self.app.models[self.request.model].name;
        let (id, created) = (&self.id, self.created);
        Envelope { id, object: "text_completion", created, model, choices, usage: None, seed: None }
    }

    fn choice<'a>(&self, number: usize, saying: &'a Saying) -> Said<'a> {
        let finish_reason = self.choices[number].finish;
        Said { text: &saying.text, index: number, logprobs: saying.logprobs.as_ref(), finish_reason }
    }

    fn usage(&self) -> Value {
        let prompts: usize = self.request.prompts.iter().map(|prompt| prompt.ids.len()).sum();
        let drawn: usize = self.choices.iter().map(|choice| choice.drawn).sum();
        json!({"prompt_tokens": prompts, "completion_tokens": drawn, "total_tokens": prompts + drawn})
    }

    /// All at once.
    async fn whole(mut self, mut parts: Receiver<Part>, deadline: Instant) -> Result<Response, Problem> {
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
        let sayings: Vec<Saying> = sayings.into_iter().map(Option::unwrap_or_default).collect();
        let choices = sayings.iter().enumerate().map(|(number, saying)| self.choice(number, saying)).collect();
        Ok(json(&Envelope { usage: Some(self.usage()), seed: Some(self.request.seed), ..self.envelope(choices) }))
    }

    /// Bit by bit, as server-sent events.
    fn stream(mut self, mut parts: Receiver<Part>, deadline: Instant) -> Response {
        let (events, body) = EventStream::new();
        tokio::spawn(async move {
            let mut unread = self.request.prompts.len();
            while unread > 0 || !self.done() {
                let part = match next_part(&mut parts, deadline).await {
                    Ok(part) => part,
                    Err(problem) => {
                        events.send_text(&problem.to_json()).await;
                        return;
                    }
                };
                let prompt = matches!(part, Part::Read(..));
                unread -= usize::from(prompt);
                for (number, saying) in self.take(part) {
                    let empty = prompt && !self.request.echo && self.request.words > 0;
                    if !empty && !events.send(&self.envelope(vec![self.choice(number, &saying)])).await {
                        return;
                    }
                }
            }
            let (usage, seed) = (Some(self.usage()), Some(self.request.seed));
            let last = Envelope { usage, seed, ..self.envelope(Vec::new()) };
            let _ = events.send(&last).await && events.send_text("[DONE]").await;
        });
        body.into_response()
    }
}

/// The next part of the engine's answer.
pub async fn next_part(parts: &mut Receiver<Part>, deadline: Instant) -> Result<Part, Problem> {
    match timeout_at(deadline, parts.recv()).await {
        Ok(Some(part)) if part.is_sound() => Ok(part),
        Ok(Some(_)) => Err(Problem::internal("the model gave an impossible probability; its weights are damaged")),
        Ok(None) => Err(Problem::internal("the engine has stopped")),
        Err(_) => Err(Problem::busy("the answer was not ready in time; ask for less, or try again later")),
    }
}
