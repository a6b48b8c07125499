//! `bowline branch`: a new run that goes on from another one.

mod common;

use common::{Place, bowline, finish, result, snapshot};
use std::fs;
use std::process::Command;

fn branch(place: &Place, from: &str, out: &str, settings: &[&str]) -> Command {
    let mut command = bowline(["branch", "--threads", "1"]);
    command.arg(place.path(from)).arg("--out").arg(place.path(out));
    for setting in settings {
        command.args(["--set", setting]);
    }
    command
}

/// The result of a run but for what was announced at its start: the number of epochs, the model, the memory it takes.
fn outcome(place: &Place, run: &str) -> common::Result {
    let mut result = result(&place.path(run));
    for key in ["epochs", "model", "memory"] {
        assert!(result.events[0].as_object_mut().unwrap().remove(key).is_some());
    }
    result
}

#[test]
fn a_run_can_be_made_longer_as_if_it_had_been_asked_for_at_the_start() {
    let place = Place::new();
    finish(place.train("short").args(["--epochs", "2"])).success();
    let before = snapshot(&place.path("short"));
    for (name, settings) in [
        ("longer", &["epochs=4"][..]),
        ("twice", &["second_training_epochs=2"]),
        ("both", &["epochs=3", "second_training_epochs=1"]),
    ] {
        let asked = format!("{name}-at-the-start");
        let mut whole = place.train(&asked);
        whole.args(["--epochs", "2"]);
        for setting in settings {
            whole.args(["--set", setting]);
        }
        finish(&mut whole).success();
        finish(&mut branch(&place, "short", name, settings)).success();
        assert_eq!(outcome(&place, name), outcome(&place, &asked), "{name}");
        let read = |run: &str| fs::read_to_string(place.path(run).join("config.toml")).unwrap();
        assert_eq!(read(name), read(&asked));
    }
    // The mean of the weights goes along, and one that is asked for late begins there.
    finish(place.train("mean").args(["--epochs", "2", "--set", "average=0.25"])).success();
    finish(place.train("mean-at-the-start").args(["--epochs", "3", "--set", "average=0.25"])).success();
    finish(&mut branch(&place, "mean", "mean-longer", &["epochs=3"])).success();
    assert_eq!(outcome(&place, "mean-longer"), outcome(&place, "mean-at-the-start"));
    finish(&mut branch(&place, "short", "mean-later", &["epochs=3", "average=0.25"])).success();
    finish(&mut branch(&place, "mean", "mean-dropped", &["epochs=3", "average=0"])).success();
    let third = |run: &str| outcome(&place, run).metrics["curve"][2].clone();
    assert_eq!(third("mean-later")["train"], third("mean-longer")["train"]);
    assert_ne!(third("mean-later")["valid"], third("mean-longer")["valid"]);
    assert_eq!(third("mean-dropped"), third("both"));
    // A branch can be made longer in its turn, in its second training too.
    finish(&mut branch(&place, "twice", "again", &["second_training_epochs=3"])).success();
    finish(place.train("again-at-the-start").args(["--epochs", "2", "--set", "second_training_epochs=3"])).success();
    assert_eq!(outcome(&place, "again"), outcome(&place, "again-at-the-start"));
    assert_eq!(snapshot(&place.path("short")), before);
}

#[test]
fn an_augmented_loss_that_begins_with_the_second_training_can_be_asked_for_after_the_first() {
    let place = Place::new();
    for (plain, augmented) in [("vd-lstm", "al"), ("re", "real")] {
        finish(place.train(plain).args(["--epochs", "2", "--model", plain, "--set", "average=0.25"])).success();
        let settings = [format!("model={augmented}"), "second_training_epochs=2".into(), "augment.begin=second".into()];
        let settings = [&settings[0], &settings[1], &settings[2], "augment.gamma=0.5"];
        let asked = format!("{augmented}-at-the-start");
        let mut whole = place.train(&asked);
        whole.args(["--epochs", "2", "--set", "average=0.25"]);
        for setting in settings {
            whole.args(["--set", setting]);
        }
        finish(&mut whole).success();
        finish(&mut branch(&place, plain, augmented, &settings)).success();
        assert_eq!(outcome(&place, augmented), outcome(&place, &asked), "{augmented}");
        let read = |run: &str| fs::read_to_string(place.path(run).join("config.toml")).unwrap();
        assert_eq!(read(augmented), read(&asked));
        // The loss of the first training has no augmented part, that of the second has.
        let kl: Vec<f64> = outcome(&place, &asked).events.iter().filter_map(|event| event["kl"].as_f64()).collect();
        let (first, second) = kl.split_at(kl.len() / 2);
        assert!(kl.len() >= 4 && first.iter().all(|&kl| kl == 0.0) && second.iter().all(|&kl| kl > 0.0), "{kl:?}");
        // It is another run if the loss is augmented from the first step on, or from the middle of the second training on.
        finish(&mut branch(&place, plain, &format!("{augmented}-mixed"), &[settings[0], "epochs=3"])).success();
        assert!(read(&format!("{augmented}-mixed")).contains("origin"));
        let twice = format!("{plain}-twice");
        finish(&mut branch(&place, plain, &twice, &["second_training_epochs=1"])).success();
        finish(&mut branch(&place, &twice, &format!("{augmented}-late"), &settings)).success();
        assert!(read(&format!("{augmented}-late")).contains("origin"));
    }
}

#[test]
fn a_branch_with_other_settings_says_where_it_comes_from() {
    let place = Place::new();
    finish(place.train("run").args(["--epochs", "1", "--model", "re"])).success();
    let settings = ["epochs=2", "model=real", "augment.gradient=stop"];
    finish(&mut branch(&place, "run", "other", &settings)).success();
    finish(&mut branch(&place, "run", "same", &["epochs=2"])).success();
    let (other, same) = (result(&place.path("other")), result(&place.path("same")));
    assert_ne!(other.weights, same.weights);
    assert_eq!(other.metrics["curve"][0], same.metrics["curve"][0]);
    assert_ne!(other.metrics["curve"][1], same.metrics["curve"][1]);
    let steps = same.metrics["steps"].as_u64().unwrap() / 2;
    let origin = format!(
        "run at step {steps} (epoch 2), then augment.gradient stop instead of flow, epochs 2 instead of 1, model real \
         instead of re"
    );
    let config = fs::read_to_string(place.path("other/config.toml")).unwrap();
    assert!(config.contains(&format!("origin = \"{origin}\"\n")), "{config}");
    assert!(!fs::read_to_string(place.path("same/config.toml")).unwrap().contains("origin"));
    assert!(fs::read_to_string(place.path("other/best/README.md")).unwrap().contains(&origin));
    // A branch of the branch tells the whole story.
    finish(&mut branch(&place, "other", "third", &["epochs=3", "keep=0.9"])).success();
    let config = fs::read_to_string(place.path("third/config.toml")).unwrap();
    let story =
        format!("{origin}; other at step {} (epoch 3), then epochs 3 instead of 2, keep 0.9 instead of 0.7", 2 * steps);
    assert!(config.contains(&story), "{config}");
}

#[test]
fn what_cannot_be_gone_on_with_is_refused() {
    let place = Place::new();
    finish(place.train("run").args(["--epochs", "2", "--model", "re"])).success();
    let before = snapshot(&place.path("run"));
    let refuse = |from: &str, settings: &[&str], problem: &str, advice: &str| {
        place.check_refusal(&mut branch(&place, from, "out", settings), problem, advice);
        assert!(!place.path("out").exists());
    };
    let new_run = "another setting, or a new run by `bowline train`";
    refuse("run", &["batch=2"], "setting `batch`: it cannot change in the middle of a run", new_run);
    refuse(
        "run",
        &["data.train_words=90"],
        "setting `data.train_words`: it cannot change in the middle of a run",
        new_run,
    );
    refuse(
        "run",
        &["model=al"],
        "setting `model`: al has other weights than re",
        "al with vd-lstm, re with real, or a new run by `bowline train`",
    );
    refuse(
        "run",
        &["epochs=1"],
        "setting `epochs`: 1 is impossible: DIR/run has trained longer than that",
        "a value above 2",
    );
    refuse(
        "run",
        &["keep=0.9"],
        "DIR/run: it is finished, and with these settings nothing is left to do",
        "`--set epochs=N` with N above 2, or `--set second_training_epochs=N`",
    );
    refuse(
        "nothing",
        &[],
        "DIR/nothing: there is no such folder",
        "the folder that was given to `bowline train --out` (it has a config.toml)",
    );
    finish(bowline(["train", "--model", "kn", "--data"]).arg(place.path("corpus")).arg("--out").arg(place.path("kn")))
        .success();
    refuse(
        "kn",
        &["epochs=3"],
        "DIR/kn: it is an n-gram model, which has no epochs",
        "a run of a network; to estimate an n-gram model again, use `bowline train --model kn`",
    );
    place.check_refusal(
        &mut branch(&place, "run", "kn", &["epochs=3"]),
        "DIR/kn: this folder already has a run",
        "`bowline resume DIR/kn` to continue it, or another --out",
    );
    assert_eq!(snapshot(&place.path("run")), before);
}
