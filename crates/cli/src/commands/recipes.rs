//! `bowline recipes`: the models that `--model` takes.

use super::print_json;
use bowline::recipes::{Published, Recipe};
use clap::Args;
use serde_json::json;
use std::io::{Write, stdout};
use std::process::ExitCode;

/// Words of PTB's vocabulary and of its training text, for which parameters and cost are given.
const PTB: (usize, f64) = (10_000, 929_589.0);

#[derive(Args)]
pub struct RecipesOptions {
    /// Print this recipe (a name or FILE.toml) as a file for `--model`
    pub name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub fn run(options: &RecipesOptions) -> anyhow::Result<ExitCode> {
    let mut out = stdout();
    if let Some(name) = &options.name {
        let recipe = Recipe::find(name)?;
        if options.json {
            print_json(&row(&recipe)?)?
        } else {
            write!(out, "{}", recipe.text)?
        }
        return Ok(ExitCode::SUCCESS);
    }
    let recipes = Recipe::all()?;
    if options.json {
        let rows = recipes.iter().map(row).collect::<anyhow::Result<Vec<_>>>()?;
        print_json(&json!({ "recipes": rows }))?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "{:<15} {:>11} {:>13} {:>13}  what it is", "name", "parameters", "PTB, test", "TFLOP/epoch")?;
    for recipe in &recipes {
        let (parameters, cost) = size(recipe)?;
        let published = on_ptb(recipe).map_or("-".to_owned(), |published| format!("{:.1}", published.test));
        let (name, title) = (&recipe.name, &recipe.about.title);
        writeln!(out, "{name:<15} {:>10.1}M {published:>13} {cost:>13.1}  {title}", parameters as f64 / 1e6)?;
    }
    writeln!(out, "\nParameters and cost are for PTB's 10,000 words; for a recipe with sizes, its small network's.")?;
    writeln!(out, "next: bowline recipes NAME, bowline train --model NAME --data ptb --out runs/NAME")?;
    Ok(ExitCode::SUCCESS)
}

/// Number of parameters, and 10^12 floating-point operations in a pass over PTB: two for each weight that a word is multiplied
/// with, forward, and twice as many on the way back.
fn size(recipe: &Recipe) -> anyhow::Result<(usize, f64)> {
    let spec = recipe.config(None, "ptb")?.spec(PTB.0);
    Ok((spec.parameters(), 6.0 * spec.products() as f64 * PTB.1 / 1e12))
}

/// The first published number for PTB.
fn on_ptb(recipe: &Recipe) -> Option<&Published> {
    recipe.about.published.iter().find(|published| published.data == "ptb")
}

fn row(recipe: &Recipe) -> anyhow::Result<serde_json::Value> {
    let (parameters, cost) = size(recipe)?;
    let mut row = serde_json::to_value(&recipe.about)?;
    row["name"] = recipe.name.as_str().into();
    row["parameters"] = parameters.into();
    row["tflop_per_epoch"] = cost.into();
    Ok(row)
}
