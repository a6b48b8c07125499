//! `--set key=value`: changes one setting by its dotted name.

use super::{Config, ModelKind};
use crate::error::{Error, Result};
use toml::{Table, Value};

/// Applies the settings one after the other.
pub(super) fn apply(config: Config, settings: &[String]) -> Result<Config> {
    let mut config = config;
    for setting in settings {
        config = apply_one(&config, setting)?;
    }
    Ok(config)
}

fn apply_one(config: &Config, setting: &str) -> Result<Config> {
    let Some((key, value)) = setting.split_once('=') else {
        return Err(Error::config(setting, "there is no value", format!("`--set {setting}=VALUE`")));
    };
    let (key, value) = (key.trim(), value.trim());
    let mut table: Table = Table::try_from(config).map_err(|e| Error::config(key, e.to_string(), "another value"))?;
    let known = names(&table, "");
    if !known.iter().any(|name| name == key) || ["version", "origin"].contains(&key) {
        return Err(unknown(key, &known));
    }
    if key == "model" && !ModelKind::ALL.iter().any(|kind| kind.name() == value) {
        let names = ModelKind::ALL.map(ModelKind::name).join(", ");
        return Err(Error::config(key, format!("`{value}` is none of {names}"), "another recipe by `--model`"));
    }
    let slot = find(&mut table, key).ok_or_else(|| unknown(key, &known))?;
    let kind = slot.type_str();
    *slot = parse(slot, value)
        .ok_or_else(|| Error::config(key, format!("`{value}` is not {}", plain(kind)), example(key, config)))?;
    let old = config.to_toml().unwrap_or_default();
    table.try_into().map_err(|e: toml::de::Error| {
        let now = old.lines().find(|l| l.starts_with(key.rsplit('.').next().unwrap_or(key))).unwrap_or_default();
        Error::config(key, format!("`{value}`: {}", e.message()), format!("a value like the present one, `{now}`"))
    })
}

/// Takes the settings of a table, which may leave out any.
pub(super) fn overlay(config: &Config, settings: &Table) -> Result<Config> {
    let mut table: Table =
        Table::try_from(config).map_err(|e| Error::config("settings", e.to_string(), "another value"))?;
    let (known, mut settings) = (names(&table, ""), settings.clone());
    for key in names(&settings, "") {
        let (Some(value), Some(slot)) = (find(&mut settings, &key).cloned(), find(&mut table, &key)) else {
            return Err(unknown(&key, &known));
        };
        if ["version", "origin", "model", "size"].contains(&key.as_str()) || slot.is_table() {
            return Err(unknown(&key, &known));
        }
        // A whole number will do for a number.
        *slot = match (&*slot, value) {
            (Value::Float(_), Value::Integer(n)) => Value::Float(n as f64),
            (_, value) => value,
        };
        let one: std::result::Result<Config, toml::de::Error> = table.clone().try_into();
        one.map_err(|e| Error::config(&key, e.message().to_owned(), "a value like those of `bowline recipes NAME`"))?;
    }
    table.try_into().map_err(|e: toml::de::Error| Error::config("settings", e.message().to_owned(), "another value"))
}

/// The name that is nearest to one that there is not.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> &'a str {
    known.iter().min_by_key(|known| edits(name, known)).copied().unwrap_or_default()
}

fn plain(kind: &str) -> &str {
    match kind {
        "integer" => "a whole number",
        "float" => "a number",
        "boolean" => "true or false",
        "array" => "a list in brackets",
        other => other,
    }
}

fn example(key: &str, config: &Config) -> String {
    format!("a value like the present one, `{key}={}`", default_of(config, key).unwrap_or_default())
}

/// The value of a setting as text.
pub(super) fn default_of(config: &Config, key: &str) -> Option<String> {
    // By way of the text: a single-precision 0.7 is 0.7 there, and 0.699999988 as a double-precision value.
    let mut table = config.to_toml().ok()?.parse::<Table>().ok()?;
    Some(find(&mut table, key)?.to_string().trim_matches('"').to_owned())
}

/// The dotted names of all settings.
#[cfg(test)]
pub(super) fn names_of(config: &Config) -> Vec<String> {
    config.to_toml().ok().and_then(|text| text.parse::<Table>().ok()).map_or_else(Vec::new, |table| names(&table, ""))
}

/// A value of the same type as the present one.
fn parse(present: &Value, text: &str) -> Option<Value> {
    match present {
        Value::String(_) => Some(Value::String(text.trim_matches('"').to_owned())),
        Value::Integer(_) => text.replace('_', "").parse().ok().map(Value::Integer),
        Value::Float(_) => text.parse().ok().map(Value::Float),
        Value::Boolean(_) => text.parse().ok().map(Value::Boolean),
        Value::Array(_) => format!("list = {text}").parse::<Table>().ok()?.remove("list").filter(Value::is_array),
        _ => None,
    }
}

/// The settings in which two configurations differ: dotted name, the value in the first, the value in the second.
pub(super) fn differences(a: &Config, b: &Config) -> Vec<(String, String, String)> {
    // By way of the text: a single-precision 0.7 is 0.7 there, and 0.699999988 as a double-precision value.
    let table = |config: &Config| config.to_toml().ok().and_then(|text| text.parse::<Table>().ok()).unwrap_or_default();
    let (mut a, mut b) = (table(a), table(b));
    let text =
        |value: Option<&mut Value>| value.map_or_else(String::new, |v| v.to_string().trim_matches('"').to_owned());
    let mut all: Vec<String> = names(&a, "").into_iter().chain(names(&b, "")).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter()
        .map(|key| (text(find(&mut a, &key)), text(find(&mut b, &key)), key))
        .filter(|(a, b, _)| a != b)
        .map(|(a, b, key)| (key, a, b))
        .collect()
}

/// The dotted names of all settings.
fn names(table: &Table, prefix: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) => all.extend(names(inner, &format!("{prefix}{key}."))),
            _ => all.push(format!("{prefix}{key}")),
        }
    }
    all
}

fn find<'a>(table: &'a mut Table, key: &str) -> Option<&'a mut Value> {
    match key.split_once('.') {
        None => table.get_mut(key),
        Some((first, rest)) => find(table.get_mut(first)?.as_table_mut()?, rest),
    }
}

fn unknown(key: &str, known: &[String]) -> Error {
    // A name that ends in the one given (`tau` for `augment.tau`) is nearer than any other.
    let distance = |name: &String| match name.rsplit('.').next() {
        Some(last) if last == key => 0,
        Some(last) => edits(key, name).min(1 + edits(key, last)),
        None => edits(key, name),
    };
    let known: Vec<&String> = known.iter().filter(|name| *name != "version").collect();
    let nearest = known.iter().min_by_key(|name| distance(name)).map_or("keep", |name| name.as_str());
    let all = known.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    Error::config(key, "there is no such setting", format!("`{nearest}`, the closest of: {all}"))
}

/// Levenshtein's distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::super::{Size, TargetGradient, preset};
    use super::*;

    fn set(setting: &str) -> Result<Config> {
        apply(preset(Size::Small, ModelKind::Real, "ptb"), &[setting.to_owned()])
    }

    #[test]
    fn settings_change_by_their_dotted_names() {
        assert_eq!(set("keep=0.5").unwrap().keep.0, 0.5);
        assert_eq!(set("learning_rate=2").unwrap().learning_rate, 2.0);
        assert_eq!(set("augment.gradient=flow").unwrap().augment.gradient, TargetGradient::Flow);
        assert_eq!(set("augment.gradient=stop").unwrap().augment.gradient, TargetGradient::Stop);
        assert_eq!(set("checkpoint.every_seconds=5").unwrap().checkpoint.every_seconds, 5.0);
        assert_eq!(set("batch = 32").unwrap().batch, 32);
        assert_eq!(set("network.widths = [300, 200]").unwrap().network.widths, [300, 200]);
        assert!(set("masks.each_step=[\"input\"]").unwrap().masks.each_step.contains(crate::model::Site::Input));
    }

    #[test]
    fn a_wrong_name_gets_the_nearest_one() {
        let nearest = |key: &str| {
            let message = set(&format!("{key}=1")).unwrap_err().to_string();
            assert!(message.starts_with(&format!("setting `{key}`: there is no such setting\n  try: `")), "{message}");
            message.split('`').nth(3).unwrap().to_owned()
        };
        assert_eq!(nearest("learnig_rate"), "learning_rate");
        assert_eq!(nearest("tau"), "augment.tau");
        assert_eq!(nearest("augment.gama"), "augment.gamma");
        assert_eq!(nearest("kepe"), "keep");
    }

    #[test]
    fn a_wrong_kind_of_value_is_refused() {
        let message = |s: &str| set(s).unwrap_err().to_string();
        assert_eq!(
            message("batch=many"),
            "setting `batch`: `many` is not a whole number\n  try: a value like the present one, `batch=20`"
        );
        assert_eq!(
            message("keep=yes"),
            "setting `keep`: `yes` is not a number\n  try: a value like the present one, `keep=0.7`"
        );
        assert_eq!(message("keep"), "setting `keep`: there is no value\n  try: `--set keep=VALUE`");
        assert!(message("augment.gradient=maybe").starts_with("setting `augment.gradient`: `maybe`: unknown variant"));
        assert!(message("batch=-3").starts_with("setting `batch`: `-3`: "));
    }
}
