//! What a completions request asks for, read and checked field by field.

use crate::app::App;
use crate::fields::Fields;
use crate::problem::Problem;
use crate::prompt::{self, Pieces};
use bowline::corpus::Stranger;
use bowline::loaded_model::LoadedModel;
use bowline::score::Sampling;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The most log-probabilities beside each word.
const MOST_TOP: usize = 100;
/// The most continuations of a prompt.
const MOST_CHOICES: usize = 128;
/// Words to draw unless the request says how many, as in OpenAI's API.
const USUAL_WORDS: usize = 16;
/// The most strings to stop at, and the longest of them, in bytes.
const MOST_STOPS: usize = 16;
const LONGEST_STOP: usize = 1000;

/// A request, understood.
#[derive(Debug)]
pub struct CompletionRequest {
    /// The model's number.
    pub model: usize,
    /// The prompts.
    pub prompts: Vec<Prompt>,
    /// Whether the prompt is part of the answer.
    pub echo: bool,
    /// Whether log-probabilities are wanted, and of how many of the likeliest words besides.
    pub logprobs: Option<usize>,
    /// How many words to draw at most.
    pub words: usize,
    /// How they are chosen.
    pub sampling: Sampling,
    /// What chance follows from.
    pub seed: u64,
    /// What ends a continuation.
    pub stops: Arc<[String]>,
    /// Continuations of each prompt.
    pub choices: usize,
    /// Whether the answer comes bit by bit.
    pub stream: bool,
}

/// What is to be continued.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// Its tokens, without an `<eos>` that is not in it.
    pub ids: Vec<u32>,
    /// Those of them that the vocabulary lacks.
    pub strangers: Vec<Stranger>,
    /// How a continuation joins the prompt, and how long that is, in characters.
    pub joint: (Pieces, usize),
}

impl Prompt {
    fn of_text(model: &LoadedModel, text: &str) -> Result<Prompt, Problem> {
        let joint = (Pieces::after(text), text.chars().count());
        let words = prompt::read(model, text)?;
        let strangers = prompt::strangers(&words, 0);
        Ok(Prompt { ids: words.into_iter().map(|word| word.id).collect(), strangers, joint })
    }

    fn of_ids(model: &LoadedModel, ids: &[Value]) -> Result<Prompt, Problem> {
        let vocabulary = model.vocabulary.len();
        let id = |value: &Value| {
            value.as_u64().filter(|&id| id < vocabulary as u64).map(|id| id as u32).ok_or_else(|| {
                Problem::field(
                    "prompt",
                    format!("{value} is not a token of this model; tokens are numbers below {vocabulary}"),
                )
            })
        };
        let ids = ids.iter().map(id).collect::<Result<Vec<u32>, Problem>>()?;
        let text = prompt::decode(model, &ids);
        Ok(Prompt { ids, strangers: Vec::new(), joint: (Pieces::after(&text), text.chars().count()) })
    }

    /// Whether it says itself that it stands at the beginning of a sentence.
    pub fn begins_itself(&self, model: &LoadedModel) -> bool {
        self.ids.first() == Some(&model.vocabulary.eos())
    }
}

impl CompletionRequest {
    /// Reads a request.
    pub fn new(app: &App, fields: &Map<String, Value>) -> Result<CompletionRequest, Problem> {
        let fields = Fields(fields);
        let number = app.model(fields.text("model")?)?;
        let model = app.models[number].model();
        refuse_unsupported(&fields)?;
        let prompts = prompts(model, fields.get("prompt"))?;
        let echo = fields.flag("echo")?;
        let words = fields.count("max_tokens", 0, app.limits.tokens)?.unwrap_or(USUAL_WORDS);
        let choices = fields.count("n", 1, MOST_CHOICES)?.unwrap_or(1);
        let sampling = sampling(&fields)?;
        let request = CompletionRequest {
            model: number,
            echo,
            logprobs: fields.count("logprobs", 0, MOST_TOP)?,
            words,
            sampling,
            seed: fields.seed()?.unwrap_or_else(fresh_seed),
            stops: stops(fields.get("stop"))?.into(),
            choices,
            stream: fields.flag("stream")?,
            prompts,
        };
        let drawn = request.prompts.len().saturating_mul(choices).saturating_mul(words);
        let read: usize = request.prompts.iter().map(|prompt| prompt.ids.len()).sum();
        app.limits.check_tokens(drawn.saturating_add(read))?;
        Ok(request)
    }

    /// About how many words and log-probabilities the answer can have, an object around some of them counted as four. Each
    /// choice says its prompt anew.
    pub fn items(&self, model: &LoadedModel) -> usize {
        const OBJECT: usize = 4;
        let per_word = self.logprobs.map_or(0, |top| 1 + top);
        let echoed = |prompt: &Prompt| {
            let words = if self.echo { &prompt.ids[..] } else { &[] };
            words.iter().map(|&id| prompt::size(model, id) + per_word).sum::<usize>()
        };
        let said = |prompt| OBJECT + echoed(prompt) + self.words * (1 + per_word);
        self.prompts.iter().fold(0, |sum: usize, prompt| sum.saturating_add(self.choices.saturating_mul(said(prompt))))
    }
}

/// `temperature`, `top_k`, `top_p`, and `unk`, which allows `<unk>`.
pub fn sampling(fields: &Fields<'_>) -> Result<Sampling, Problem> {
    let usual = Sampling::default();
    let top_p = fields.number("top_p", 0.0, 1.0)?.unwrap_or(usual.top_p);
    Ok(Sampling {
        temperature: fields.number("temperature", 0.0, 100.0)?.unwrap_or(usual.temperature),
        top_k: fields.count("top_k", 0, usize::MAX)?.unwrap_or(usual.top_k),
        top_p,
        unk: fields.flag("unk")?,
    })
}

/// A seed that is another one each time.
pub fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // Half of the bits: every JSON reader keeps them exactly.
    RandomState::new().hash_one(0) >> 32
}

/// A prompt is a string or a list of tokens; several prompts are a list of these.
fn prompts(model: &LoadedModel, prompt: Option<&Value>) -> Result<Vec<Prompt>, Problem> {
    let wrong = || {
        Problem::field("prompt", "must be a string, a list of strings, a list of tokens, or a list of lists of tokens")
    };
    let Some(prompt) = prompt else { return Ok(vec![Prompt::of_text(model, "")?]) };
    match prompt {
        Value::String(text) => Ok(vec![Prompt::of_text(model, text)?]),
        Value::Array(list) if list.first().is_some_and(Value::is_number) => Ok(vec![Prompt::of_ids(model, list)?]),
        Value::Array(list) if !list.is_empty() => list
            .iter()
            .map(|prompt| match prompt {
                Value::String(text) => Prompt::of_text(model, text),
                Value::Array(ids) => Prompt::of_ids(model, ids),
                _ => Err(wrong()),
            })
            .collect(),
        _ => Err(wrong()),
    }
}

fn stops(stop: Option<&Value>) -> Result<Vec<String>, Problem> {
    let wrong = || {
        let limits = format!("at most {MOST_STOPS}, none of them empty or longer than {LONGEST_STOP} bytes");
        Problem::field("stop", format!("must be a string or a list of strings, {limits}"))
    };
    let one = |value: &Value| match value {
        Value::String(text) if (1..=LONGEST_STOP).contains(&text.len()) => Ok(text.clone()),
        _ => Err(wrong()),
    };
    match stop {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) if list.len() <= MOST_STOPS => list.iter().map(one).collect(),
        Some(value) => Ok(vec![one(value)?]),
    }
}

/// Better to say so than to answer something else than was asked.
fn refuse_unsupported(fields: &Fields<'_>) -> Result<(), Problem> {
    for name in ["suffix", "logit_bias"] {
        let given = fields.get(name).is_some_and(|value| *value != Value::Object(Map::new()) && value != "");
        if given {
            return Err(Problem::field(name, "is not supported"));
        }
    }
    for name in ["presence_penalty", "frequency_penalty"] {
        if fields.number(name, -2.0, 2.0)?.is_some_and(|penalty| penalty != 0.0) {
            return Err(Problem::field(name, "is not supported; leave it out or 0"));
        }
    }
    let choices = fields.count("n", 1, MOST_CHOICES)?.unwrap_or(1);
    match fields.count("best_of", 1, MOST_CHOICES)? {
        Some(best) if best != choices => {
            Err(Problem::field("best_of", "is not supported; leave it out or the same as `n`"))
        }
        _ => Ok(()),
    }
}
