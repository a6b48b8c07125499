//! `--isa`: what the CPU computes with can be asked for, and a run continues with what it began with.

mod common;

use bowline_kernels::Isa;
use common::{Place, bowline, change, finish};
use std::fs;

#[test]
fn a_run_continues_with_the_instruction_set_it_began_with() {
    let place = Place::new();
    let whole = |name: &str, isa: &str| {
        let mut train = place.train(name);
        finish(train.args(["--epochs", "2", "--isa", isa])).success();
        fs::read(place.path(name).join("best/model.safetensors")).unwrap()
    };
    let begun = finish(place.train("run").args(["--epochs", "1", "--isa", "portable"])).success();
    assert!(begun.stderr.contains("portable"), "{begun:?}");
    let mut longer = bowline(["branch", "--threads", "1", "--isa", "portable", "--set", "epochs=2", "--out"]);
    finish(longer.arg(place.path("longer")).arg(place.path("run"))).success();
    assert!(fs::read(place.path("longer/best/model.safetensors")).unwrap() == whole("portable", "portable"));
    // Nothing is said of it: the run's own is taken, though the CPU may have a wider one.
    let resumed = finish(&mut place.resume("longer")).success();
    assert!(!resumed.stderr.contains("avx"), "{resumed:?}");
}

#[test]
fn an_instruction_set_that_the_cpu_lacks_is_refused_with_what_to_do() {
    let place = Place::new();
    place.trained("run");
    let have: Vec<_> = Isa::available().iter().map(|isa| isa.name()).collect();
    if let Some(missing) = Isa::NAMES.iter().find(|name| !have.contains(name)) {
        let said = finish(&mut bowline(["bench", "--isa", missing]));
        assert!(said.error().contains("does not have it") && said.error().contains(&have.join(", ")), "{said:?}");
        change(&place.path("run/events.jsonl"), |bytes| {
            let text = String::from_utf8(bytes.clone()).unwrap();
            *bytes = text.replace(&format!(", {}, ", Isa::detect().name()), &format!(", {missing}, ")).into_bytes();
        });
        let said = finish(&mut place.resume("run"));
        assert!(said.error().contains(&format!("trained with {missing}")) && said.error().contains("--isa auto"));
        finish(place.resume("run").args(["--isa", "auto"])).success();
    }
    let said = finish(bowline(["eval", "--isa", "all"]).arg(place.path("run")));
    assert!(said.error().contains("`--isa all` is for `bowline bench`"), "{said:?}");
}
