//! What the page asks, and whoever wants less ceremony than a completions request: `/v1/models` and `/api/...`.

use crate::app::{App, Shared, json};
use crate::completions::{fresh_seed, next_part, sampling};
use crate::engine::{Draw, Job, Part, Sequence};
use crate::fields::Fields;
use crate::problem::Problem;
use crate::prompt::{self, Pieces};
use axum::extract::{Path, Request, State};
use axum::response::Response;
use bowline::explain::can_explain;
use bowline::loaded_model::LoadedModel;
use bowline::model::word_vectors;
use bowline::run::OwnText;
use bowline::score::{Sampling, similar_spelling};
use bowline::vocabulary::EOS;
use serde_json::{Value, json};
use std::sync::{Arc, PoisonError};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The most words in an answer that lists words.
const MOST_WORDS: usize = 1000;
/// Lines of an example.
const EXAMPLE_LINES: usize = 3;

/// `GET /v1/models`.
pub async fn models(State(app): Shared) -> Response {
    let models: Vec<Value> = (0..app.models.len()).map(|number| card(&app, number)).collect();
    json(&json!({"object": "list", "data": models, "runs": app.runs.is_some()}))
}

/// `GET /v1/models/{id}`.
pub async fn model(State(app): Shared, Path(name): Path<String>) -> Result<Response, Problem> {
    let number = app.model(Some(&name))?;
    Ok(json(&card(&app, number)))
}

/// What is said of a model.
fn card(app: &App, number: usize) -> Value {
    let served = &app.models[number];
    let model = served.model();
    let mut card = json!({
        "id": served.name, "object": "model", "created": app.started, "owned_by": "bowline",
        "kind": model.kind, "vocabulary": model.vocabulary.len(), "tokenize": model.tokenize,
    });
    if let Some(params) = model.params() {
        let spec = params.spec();
        card["hidden"] = spec.width().into();
        card["layers"] = spec.layers.len().into();
        card["tied"] = spec.output.tied.into();
        card["parameters"] = spec.parameters().into();
    }
    if !served.side_by_side {
        let ensemble = &served.ensemble;
        card["predictor"] = json!({"title": ensemble.title(), "details": ensemble.details()});
    }
    card
}

/// The words a text is read as.
fn read_text(app: &App, model: &LoadedModel, fields: &Fields<'_>) -> Result<Vec<prompt::Word>, Problem> {
    let words = prompt::read(model, fields.text("text")?.unwrap_or(""))?;
    app.limits.check_tokens(words.len())?;
    Ok(words)
}

/// `<eos>` and then the words, to be read.
fn sequence(model: &LoadedModel, words: &[prompt::Word]) -> Sequence {
    Sequence { inputs: inputs(model, words), strangers: prompt::strangers(words, 1), ..Sequence::default() }
}

/// `<eos>` and then the words.
fn inputs(model: &LoadedModel, words: &[prompt::Word]) -> Vec<u32> {
    std::iter::once(model.vocabulary.eos()).chain(words.iter().map(|word| word.id)).collect()
}

/// `/api/next`: the likeliest words after a phrase.
pub async fn next(State(app): Shared, request: Request) -> Result<Response, Problem> {
    let fields = app.fields(request).await?;
    let fields = Fields(&fields);
    fields.only(&["model", "text", "k", "explain"])?;
    let explain = fields.flag("explain")?;
    let number = app.model(fields.text("model")?)?;
    let model = app.models[number].model();
    let k = fields.count("k", 1, MOST_WORDS)?.unwrap_or(10);
    let words = read_text(&app, model, &fields)?;
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    let draw = Draw { sampling, seed: 0, sample: 0, words: 1, top: k };
    let sequence = Sequence { draws: vec![draw], ..sequence(model, &words) };
    let likeliest = drawn(&app, number, sequence).await?.into_iter().next().map(|word| word.likeliest);
    let next: Vec<Value> = likeliest
        .into_iter()
        .flatten()
        .map(|(id, logprob)| json!({"word": model.vocabulary.word(id), "probability": logprob.exp(), "logprob": logprob}))
        .collect();
    let unknown: Vec<&str> = words.iter().filter_map(|word| word.unknown.as_deref()).collect();
    let mut answer = json!({"model": app.models[number].name, "next": next, "unknown": unknown, "words": words.len()});
    if explain && let Some(explanation) = explained(model, inputs(model, &words)).await {
        answer["explanation"] = explanation;
    }
    Ok(json(&answer))
}

/// Why these words: what a model with topics or a pointer says of itself. One request at a time is explained.
async fn explained(model: &Arc<LoadedModel>, ids: Vec<u32>) -> Option<Value> {
    static TURN: Semaphore = Semaphore::const_new(1);
    if !can_explain(model) {
        return None;
    }
    let (model, _turn) = (Arc::clone(model), TURN.acquire().await.ok()?);
    let explanation = tokio::task::spawn_blocking(move || bowline::explain::explain(&model, &ids)).await.ok()?.ok()?;
    serde_json::to_value(explanation).ok()
}

/// Has the one continuation of a sequence drawn to its end.
async fn drawn(app: &App, model: usize, sequence: Sequence) -> Result<Vec<bowline::score::Word>, Problem> {
    let mut words_left = sequence.draws.first().map_or(0, |draw| draw.words);
    let eos = app.models[model].model().vocabulary.eos();
    let mut parts = app.engine.submit(Job { model, sequences: vec![sequence] })?;
    let deadline = Instant::now() + app.limits.request_time;
    let mut words = Vec::new();
    while words_left > 0 {
        if let Part::Word(_, _, word) = next_part(&mut parts, deadline).await? {
            words_left = if word.id == eos { 0 } else { words_left - 1 };
            words.push(word);
        }
    }
    Ok(words)
}

/// `/api/score`: the log-probability of each word of a text and of the end of each line.
pub async fn score(State(app): Shared, request: Request) -> Result<Response, Problem> {
    let fields = app.fields(request).await?;
    let fields = Fields(&fields);
    fields.only(&["model", "text", "top", "carry"])?;
    let number = app.model(fields.text("model")?)?;
    let model = app.models[number].model();
    let top = fields.count("top", 0, 20)?.unwrap_or(0);
    let carry = fields.flag("carry")?;
    let mut words = read_text(&app, model, &fields)?;
    let eos = model.vocabulary.eos();
    if words.last().is_some_and(|word| word.id != eos) {
        words.push(prompt::Word { id: eos, unknown: None });
    }
    // Without a memory of the line before, each line is a sequence of its own.
    let lines: Vec<&[prompt::Word]> =
        if carry { vec![&words[..]] } else { words.split_inclusive(|word| word.id == eos).collect() };
    let room = app.reserve(words.iter().map(|word| prompt::size(model, word.id) + 1 + top).sum())?;
    let sequence = |line: &&[prompt::Word]| Sequence { score: true, top, ..sequence(model, line) };
    let sequences: Vec<Sequence> = lines.iter().filter(|line| !line.is_empty()).map(sequence).collect();
    let mut readings: Vec<_> = sequences.iter().map(|_| None).collect();
    let mut parts = app.engine.submit(Job { model: number, sequences })?;
    let deadline = Instant::now() + app.limits.request_time;
    while readings.iter().any(Option::is_none) {
        if let Part::Read(number, reading) = next_part(&mut parts, deadline).await? {
            readings[number] = Some(reading);
        }
    }
    let readings: Vec<_> = readings.into_iter().flatten().collect();
    let logprobs: Vec<f64> = readings.iter().flat_map(|reading| &reading.logprobs).copied().collect();
    let mut likeliest = readings.iter().flat_map(|reading| &reading.likeliest);
    let said: Vec<Value> = words
        .iter()
        .zip(&logprobs)
        .map(|(word, logprob)| {
            let spelled = word.unknown.as_deref().unwrap_or(model.vocabulary.word(word.id));
            let mut said = json!({"word": spelled, "logprob": logprob});
            if word.unknown.is_some() {
                said["unknown"] = true.into();
            }
            if top > 0 {
                let likeliest = likeliest.next().into_iter().flatten();
                said["top"] = likeliest.map(|&(id, p)| json!([model.vocabulary.word(id), p.exp()])).collect();
            }
            said
        })
        .collect();
    let logprob = logprobs.iter().fold(0.0, |sum, logprob| sum + logprob);
    let perplexity = (!logprobs.is_empty()).then(|| (-logprob / logprobs.len() as f64).exp());
    Ok(room.of(json(&json!({
        "model": app.models[number].name, "words": said, "logprob": logprob, "tokens": logprobs.len(),
        "perplexity": perplexity,
    }))))
}

/// `/api/neighbours`: the words whose vectors point the same way.
pub async fn neighbours(State(app): Shared, request: Request) -> Result<Response, Problem> {
    let fields = app.fields(request).await?;
    let fields = Fields(&fields);
    fields.only(&["model", "word", "k"])?;
    let number = app.model(fields.text("model")?)?;
    let model = Arc::clone(app.models[number].model());
    if model.params().is_none() {
        return Err(Problem::invalid(format!(
            "`{}` is an n-gram model: its words have no vectors",
            app.models[number].name
        )));
    }
    let k = fields.count("k", 1, MOST_WORDS)?.unwrap_or(12);
    let word = fields.text("word")?.map(str::trim).filter(|word| !word.is_empty());
    let word = word.ok_or_else(|| Problem::field("word", "is missing"))?.to_owned();
    let known = model.vocabulary.id(&word).or_else(|| model.vocabulary.id(&word.to_lowercase()));
    let Some(id) = known else {
        let guess = similar_spelling(&model.vocabulary, &word).map(|guess| format!("; did you mean `{guess}`?"));
        let guess = guess.unwrap_or_default();
        return Err(Problem::not_found(format!("the word `{word}` is not among the model's words{guess}")));
    };
    // A pass over all word vectors: not on the thread that answers everybody.
    let found = tokio::task::spawn_blocking(move || {
        let vocabulary = &model.vocabulary;
        let vectors = model.params().map(|params| word_vectors(params));
        let found = vectors.map(|vectors| bowline::score::neighbours(&vectors, vocabulary, id, k));
        (vocabulary.word(id).to_owned(), found.unwrap_or_default())
    });
    let (word, found) = found.await.map_err(|_| Problem::internal("the search was cancelled"))?;
    Ok(json(&json!({"model": app.models[number].name, "word": word, "neighbours": found})))
}

/// `GET /api/map`: the most frequent words, placed by the two directions in which their vectors differ most.
pub async fn map(State(app): Shared, request: Request) -> Result<Response, Problem> {
    let fields = app.fields(request).await?;
    let fields = Fields(&fields);
    fields.only(&["model", "k"])?;
    let number = app.model(fields.text("model")?)?;
    let model = Arc::clone(app.models[number].model());
    let k = fields.count("k", 1, MOST_WORDS)?.unwrap_or(400);
    let found = tokio::task::spawn_blocking(move || {
        model.params().map(|params| bowline::score::word_map(&word_vectors(params), &model.vocabulary, k))
    });
    let words = found.await.map_err(|_| Problem::internal("the map was cancelled"))?.unwrap_or_default();
    Ok(json(&json!({"model": app.models[number].name, "words": words})))
}

/// `GET /api/example`: a few lines of the validation text of the model's run, as the model reads them; nothing if the text is
/// not there any more.
pub async fn example(State(app): Shared, request: Request) -> Result<Response, Problem> {
    let fields = app.fields(request).await?;
    let fields = Fields(&fields);
    fields.only(&["model"])?;
    let number = app.model(fields.text("model")?)?;
    let model = Arc::clone(app.models[number].model());
    // Reads the corpus: not on the thread that answers everybody.
    let lines = tokio::task::spawn_blocking(move || {
        let corpus = OwnText::of(&model.folder).ok()??.corpus(&model.vocabulary).ok()?;
        let eos = model.vocabulary.eos();
        let fits = |line: &&[u32]| (6..=30).contains(&line.len());
        // Lines that are mostly known words first: the others show little.
        let unknown = |line: &[u32]| line.iter().filter(|&&id| Some(id) == model.vocabulary.unk()).count();
        let mut lines: Vec<&[u32]> = corpus.valid.ids.split(|&id| id == eos).filter(fits).collect();
        lines.sort_by_key(|line| 6 * unknown(line) > line.len());
        lines.truncate(EXAMPLE_LINES);
        let spell = |line: &[u32]| line.iter().map(|&id| model.vocabulary.word(id)).collect::<Vec<_>>().join(" ");
        Some(lines.into_iter().map(spell).collect::<Vec<_>>())
    });
    let lines = lines.await.map_err(|_| Problem::internal("the text was cancelled"))?.unwrap_or_default();
    Ok(json(&json!({"model": app.models[number].name, "lines": lines})))
}

/// `/api/generate`: a text goes on, up to the end of its sentence.
pub async fn generate(State(app): Shared, request: Request) -> Result<Response, Problem> {
    let fields = app.fields(request).await?;
    let fields = Fields(&fields);
    fields.only(&["model", "text", "words", "temperature", "top_k", "top_p", "seed", "unk"])?;
    let number = app.model(fields.text("model")?)?;
    let model = app.models[number].model();
    let text = fields.text("text")?.unwrap_or("");
    let prompt = read_text(&app, model, &fields)?;
    let words = fields.count("words", 1, app.limits.tokens)?.unwrap_or(50);
    app.limits.check_tokens(prompt.len() + words)?;
    let seed = fields.seed()?.unwrap_or_else(fresh_seed);
    let draw = Draw { sampling: sampling(&fields)?, seed, sample: 0, words, top: 0 };
    let sequence = Sequence { draws: vec![draw], ..sequence(model, &prompt) };
    let mut pieces = Pieces::after(text);
    let drawn = drawn(&app, number, sequence).await?;
    let ended = drawn.last().is_some_and(|word| model.vocabulary.word(word.id) == EOS);
    let said = &drawn[..drawn.len() - usize::from(ended)];
    let continuation: String = said.iter().map(|word| pieces.next(model, word.id)).collect();
    let logprob: f64 = drawn.iter().map(|word| word.logprob).sum();
    Ok(json(&json!({
        "model": app.models[number].name, "text": continuation, "words": said.len(), "ended": ended,
        "logprob": logprob, "seed": seed,
    })))
}

/// `GET /api/runs`: the curves, or nothing if they are those the client has already (`?version=N`).
pub async fn runs(State(app): Shared, request: Request) -> Result<Response, Problem> {
    let fields = app.fields(request).await?;
    let known = Fields(&fields).count("version", 0, usize::MAX)?;
    if app.runs.is_none() {
        return Err(Problem::not_found("no runs are shown here; start with `bowline serve MODEL --runs DIR`"));
    }
    // Reads files: not on the thread that answers everybody.
    let look = tokio::task::spawn_blocking(move || {
        let Some(runs) = &app.runs else { return Ok(Value::Null) };
        let mut runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
        let version = runs.look()?;
        let news = known != Some(version as usize);
        Ok::<_, std::io::Error>(json!({"version": version, "runs": news.then(|| runs.all())}))
    });
    match look.await {
        Ok(Ok(answer)) => Ok(json(&answer)),
        Ok(Err(error)) => Err(Problem::internal(format!("the folder of the runs cannot be read: {error}"))),
        Err(_) => Err(Problem::internal("reading the runs was cancelled")),
    }
}
