//! The model's words over HTTP, as other servers offer them and evaluation tools ask for them: `/tokenizer_info`,
//! `/tokenize`, `/detokenize`.

use crate::app::{Shared, json};
use crate::fields::Fields;
use crate::problem::Problem;
use crate::prompt;
use axum::extract::{Request, State};
use axum::response::Response;
use bowline::vocabulary::{EOS, UNK};
use serde_json::{Value, json};

/// The special words. `<eos>` is what a text begins after and what a line ends with, so it is both.
pub async fn info(State(app): Shared) -> Response {
    let model = app.models[0].model();
    let unk = model.vocabulary.unk().map(|_| UNK);
    json(&json!({
        "tokenizer_class": "words", "model": app.models[0].name, "vocab_size": model.vocabulary.len(),
        "bos_token": EOS, "eos_token": EOS, "unk_token": unk,
    }))
}

/// A text's tokens.
pub async fn tokenize(State(app): Shared, request: Request) -> Result<Response, Problem> {
    let fields = app.fields(request).await?;
    let fields = Fields(&fields);
    let model = app.models[app.model(fields.text("model")?)?].model();
    let text = fields.text("prompt")?.ok_or_else(|| Problem::field("prompt", "is missing"))?;
    let tokens = prompt::encode(model, text)?;
    let room = app.reserve(tokens.len())?;
    Ok(room.of(json(&json!({"tokens": tokens, "count": tokens.len(), "max_model_len": app.limits.tokens}))))
}

/// The text of tokens.
pub async fn detokenize(State(app): Shared, request: Request) -> Result<Response, Problem> {
    let fields = app.fields(request).await?;
    let fields = Fields(&fields);
    let model = app.models[app.model(fields.text("model")?)?].model();
    let wrong =
        || Problem::field("tokens", format!("must be a list of whole numbers below {}", model.vocabulary.len()));
    let Some(Value::Array(tokens)) = fields.get("tokens") else { return Err(wrong()) };
    let id = |value: &Value| value.as_u64().filter(|&id| id < model.vocabulary.len() as u64).map(|id| id as u32);
    let ids = tokens.iter().map(id).collect::<Option<Vec<u32>>>().ok_or_else(wrong)?;
    let room = app.reserve(ids.iter().map(|&id| prompt::size(model, id)).sum())?;
    Ok(room.of(json(&json!({"prompt": prompt::decode(model, &ids)}))))
}
