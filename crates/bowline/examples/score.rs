//! The log-probability of each line of standard input, and how a model would continue it:
//! `cargo run --release -p bowline --example score -- MODEL < TEXT`. MODEL is the folder of any model or run.

// An example is a program, and programs print; the library does not.
#![allow(clippy::print_stdout)]

use bowline::score::{Continuation, Sampling, Sentence};
use bowline::{LoadedModel, Reader};
use std::io::stdin;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = std::env::args().nth(1).ok_or("give the folder of a model or of a run")?;
    let mut reader = Reader::of(LoadedModel::load(model)?)?;
    for line in stdin().lines() {
        let line = line?;
        println!("{:>10.3}  {line}", reader.score_line(&line)?.logprob);

        // A text begins with `<eos>`; five words are drawn, and the same seed draws the same ones.
        let vocabulary = reader.model().vocabulary.clone();
        let sentence = Sentence::new(&line, &vocabulary, reader.model().tokenize)?;
        let text = [&[vocabulary.eos()], &sentence.ids[..]].concat();
        let mut words = Vec::new();
        reader.tell(vec![Continuation::new(text, Sampling::default(), 1, 0)], 5, 0, &mut |_, word| {
            words.push(vocabulary.word(word.id).to_owned());
            word.id != vocabulary.eos()
        });
        println!("            ... {}", words.join(" "));
    }
    Ok(())
}
