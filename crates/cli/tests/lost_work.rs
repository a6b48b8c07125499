//! No command destroys what an earlier one has made.

mod common;

use common::{Place, copy, finish, replace, snapshot};
use std::fs;

#[test]
fn resume_refuses_a_finished_run_whose_checkpoints_are_gone() {
    let place = Place::new();
    let run = place.trained("run");
    fs::remove_dir_all(run.join("checkpoints")).unwrap();
    fs::create_dir(run.join("checkpoints")).unwrap();
    for (missing, found) in [
        ("", "a result (summary.json)"),
        ("summary.json", "a model (best/)"),
        ("best", "epochs in its log (events.jsonl)"),
    ] {
        let path = run.join(missing);
        if path.is_file() {
            fs::remove_file(path).unwrap();
        } else if !missing.is_empty() {
            fs::remove_dir_all(path).unwrap();
        }
        let before = snapshot(&run);
        let ended = finish(&mut place.resume("run"));
        let problem =
            format!("DIR/run: its checkpoints are missing, but it has {found}, which starting again would overwrite");
        let advice = "restore checkpoints/last.safetensors from a copy; or train again with another --out; the model, \
                      if there is one, can be used as it is";
        place.check_error(&ended, &problem, advice);
        assert_eq!(snapshot(&run), before);
    }
    // A run that was killed before its first checkpoint has nothing to lose.
    fs::write(run.join("events.jsonl"), "").unwrap();
    finish(&mut place.resume("run")).success();
}

#[test]
fn resume_and_branch_refuse_an_edited_config_and_name_the_setting() {
    let place = Place::new();
    let run = place.trained("run");
    copy(&run, &place.path("edited"));
    let config = place.path("edited/config.toml");
    let text = fs::read_to_string(&config).unwrap();
    let edited = text.replace("seed = 1\n", "seed = 2\n").replace("hidden = 24\n", "hidden = 32\n");
    assert_ne!(text, edited, "{text}");
    fs::write(&config, edited).unwrap();
    let before = snapshot(&place.path("edited"));
    let problem = "DIR/edited/config.toml: the settings were edited: hidden is 32 and was 24, seed is 2 and was 1";
    let advice = "restore the original settings, then `bowline branch DIR/edited --out ANOTHER --set hidden=32 --set seed=2` \
                  to continue with other settings";
    place.check_error(&finish(&mut place.resume("edited")), problem, advice);
    let mut branch = common::bowline(["branch", "--set", "epochs=2", "--out"]);
    branch.arg(place.path("new")).arg(place.path("edited"));
    place.check_error(&finish(&mut branch), problem, advice);
    assert_eq!(snapshot(&place.path("edited")), before);
    assert!(!place.path("new").exists());

    // How often a run is saved, and where its text is, may change.
    fs::write(&config, text.replace("every_seconds = 60", "every_seconds = 61")).unwrap();
    fs::rename(place.path("corpus"), place.path("moved")).unwrap();
    replace(&config, "/corpus\"", "/moved\"");
    finish(&mut place.resume("edited")).success();
}

#[test]
fn sizes_that_cannot_fit_are_refused_before_anything_is_written() {
    let place = Place::new();
    let ended = finish(place.train("run").args(["--set", "hidden=65536"]));
    assert!(ended.error().contains("setting `hidden`: this needs about"), "{}", ended.error());
    assert!(!place.path("run").exists());
    let ended = finish(place.train("run").args(["--set", "unroll=65536", "--set", "batch=400", "--set", "layers=64"]));
    assert!(ended.error().contains("GB of memory are free"), "{}", ended.error());
    assert!(!place.path("run").exists());
}

#[test]
fn tunings_at_the_same_time_do_not_break_each_other_s_file() {
    let place = Place::new();
    let run = place.trained("run");
    let tune = || {
        let mut command = common::bowline(["eval", "--threads", "1", "--tune", "--cache", "--data"]);
        command.arg(place.path("corpus")).arg(&run);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    let at_once: Vec<_> = (0..6).map(|_| tune()).collect();
    for child in at_once {
        common::Ended::of(child.wait_with_output().unwrap()).success();
    }
    let tuned = fs::read_to_string(run.join("best/tuned.json")).unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(&tuned).unwrap()["cache"].is_object(), "{tuned}");
    assert!(!snapshot(&run).iter().any(|(path, _)| path.to_str().unwrap().ends_with(".partial")));
}
