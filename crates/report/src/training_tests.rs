//! The page about runs, from folders written by hand.

use super::super::record::{Stage, read_runs};
use super::super::xml_check::check;
use super::*;
use bowline::config::{Config, ModelKind, Size, preset};
use std::fs;
use std::path::{Path, PathBuf};

const START: &str = r#"{"event":"start","time":1794783067,"version":"0.1.0","model":"re","data":"ptb","data_sha256":"fcea919f","vocab":10000,"words":[929589,73760,82430],"unseen":[0,0],"parameters":2642800,"epochs":55,"steps_per_epoch":1328,"memory":1,"machine":"2 threads, avx2+fma"}"#;

fn epoch(epoch: u32, valid: &str) -> String {
    format!(
        r#"{{"event":"epoch","epoch":{epoch},"step":{},"loss":5.9,"train":401.5,"kl":0.25,"valid":{valid},"best":true,"learning_rate":1.0,"seconds":320.5}}"#,
        1328 * epoch
    )
}

const PROGRESS: &str = r#"{"event":"progress","epoch":3,"step":2990,"epoch_step":334,"epoch_steps":1328,"loss":5.1,"perplexity":null,"kl":0.0,"learning_rate":1.0,"gradient_norm":7.0,"words_per_second":4000.0,"eta_seconds":7380.0}"#;

fn summary(model: &str, valid: &str, test: &str) -> String {
    format!(
        r#"{{"model":"{model}","size":"small","data":"ptb","data_sha256":["a1","b2","c3"],"seed":1,"parameters":2642800,"epochs":2,"steps":2656,"ended":"done","best_epoch":2,"valid":{valid},"test":{test},"tokens":[73759,82429],"weights_sha256":"d4","curve":[],"timing":{{"seconds":640.0,"words_per_second":4100.5,"machine":"2 threads"}}}}"#
    )
}

/// Writes a run's folder.
fn write(dir: &Path, config: &Config, events: &str, summary: Option<String>) -> PathBuf {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("config.toml"), config.to_toml().unwrap()).unwrap();
    fs::write(dir.join("events.jsonl"), events).unwrap();
    if let Some(summary) = summary {
        fs::write(dir.join("summary.json"), summary).unwrap();
    }
    dir.to_path_buf()
}

fn lines(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn three_runs(dir: &Path) -> Vec<PathBuf> {
    let config = |model| preset(Size::Small, model, "ptb");
    let (first, second, bad) = (epoch(1, "216.5"), epoch(2, "170.25"), epoch(2, "null"));
    let two = lines(&[START, &first, r#"{"event":"second_training","epoch":2}"#, &second]);
    vec![
        write(&dir.join("re<1>"), &config(ModelKind::Re), &two, Some(summary("re", "90.0", "86.0"))),
        write(
            &dir.join("going-on"),
            &config(ModelKind::Real),
            &(lines(&[
                START,
                &first,
                &second,
                r#"{"event":"resume","time":1794783967,"step":2656,"epoch":3}"#,
                PROGRESS,
            ]) + r#"{"event":"prog"#),
            None,
        ),
        write(
            &dir.join("diverged"),
            &config(ModelKind::Al),
            &lines(&[START, &first, &bad]),
            Some(summary("al", "null", "null")),
        ),
    ]
}

#[test]
fn finished_and_unfinished_runs_stand_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    let runs = read_runs(&three_runs(dir.path())).unwrap();
    assert_eq!(runs[0].state, Stage::Finished);
    assert_eq!((runs[0].second_training, runs[0].epochs.len()), (Some(2), 2));
    assert!(runs[0].comparison().unwrap().inside);
    assert!(
        matches!(runs[1].state, Stage::Within(progress) if progress.epoch_step == 334 && progress.perplexity.is_infinite())
    );
    assert_eq!((runs[1].valid(), runs[1].test(), runs[1].resumed), (Some(170.25), None, 1));
    assert_eq!(runs[1].progress(), "not finished: epoch 3 of 55, 25% done");
    assert_eq!(runs[2].test(), Some(f64::INFINITY));

    let page = training_page(&runs);
    let html = page.html();
    for text in [
        "re&lt;1&gt;",
        "inside the band (at most 2% above)",
        "second training",
        "not finished: epoch 3 of 55, 25% done",
        "2 h 03 min",
        "infinite",
        "929,589 for training",
        "2026-11-15 22:51 UTC",
        "resumed once",
        "Divergence of the augmented loss",
        ">paper: +RE 89.9<",
        ">paper: +REAL, +AL 86.3<",
    ] {
        assert!(html.contains(text), "{text}");
    }
    assert!(!html.contains("re<1>") && !html.contains("NaN"));
    assert_eq!(page.sections.len(), 5);
    for svg in
        page.write(&dir.path().join("out")).unwrap().iter().filter(|path| path.extension().is_some_and(|e| e == "svg"))
    {
        check(&fs::read_to_string(svg).unwrap()).unwrap_or_else(|problem| panic!("{}: {problem}", svg.display()));
    }
    assert_eq!(
        fs::read_to_string(dir.path().join("out/results.csv")).unwrap(),
        "run,valid,test,model,paper_valid,difference_valid,paper_test,difference_test,band,data,vocabulary,oov_percent,\
         size,epochs,seed,state\n\
         re<1>,90,86,VD-LSTM +RE,89.9,0.1,85.1,0.9,inside,ptb,10000,0,small,2,1,finished\n\
         going-on,170.25,,VD-LSTM +REAL,86.3,,82.7,,,ptb,10000,0,small,2,1,not finished\n\
         diverged,inf,inf,VD-LSTM +AL,86.3,inf,82.9,inf,above,ptb,10000,0,small,2,1,finished\n"
    );
    // The page begins with the finding, marks the best row and keeps hashes folded.
    let lead = html.split("class=\"lead\">").nth(1).unwrap();
    assert!(
        lead.starts_with("The best is re&lt;1&gt; with a test perplexity of 86.00, 1.1% above the paper (85.10)."),
        "{lead:.300}"
    );
    assert_eq!(html.matches("<tr class=\"best\">").count(), 1);
    assert!(html.contains("<strong>86.00</strong>"));
    let before = html.split("the weights</dt>").next().unwrap();
    assert!(before.rfind("<details>") > before.rfind("</details>"), "hashes are folded");
}

#[test]
fn a_run_that_has_just_begun_has_a_page_too() {
    let dir = tempfile::tempdir().unwrap();
    let config = preset(Size::Small, ModelKind::Real, "some/folder");
    let runs = read_runs(&[write(&dir.path().join("new"), &config, &lines(&[START]), None)]).unwrap();
    let html = training_page(&runs).html();
    assert!(html.contains("no values yet") && html.contains("not finished: 0 of 55 epochs done"), "{html}");
    let runs = read_runs(&[write(&dir.path().join("newer"), &config, "", None)]).unwrap();
    assert!(training_page(&runs).html().contains("no values yet"));
}

#[test]
fn runs_of_one_name_are_called_by_their_paths() {
    let dir = tempfile::tempdir().unwrap();
    let config = preset(Size::Small, ModelKind::Re, "ptb");
    let dirs = ["a/re", "b/re", "c"].map(|name| write(&dir.path().join(name), &config, "", None));
    let runs = read_runs(&dirs).unwrap();
    assert_eq!(runs[0].name, dirs[0].display().to_string());
    assert_eq!(runs[2].name, "c");
}

#[test]
fn broken_folders_are_named_with_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let config = preset(Size::Small, ModelKind::Re, "ptb");
    let problem = |path: &Path| {
        let error = read_runs(&[path.to_path_buf()]).unwrap_err().to_string();
        error.replace(&dir.path().display().to_string(), "DIR")
    };
    assert!(problem(&dir.path().join("none")).starts_with("DIR/none: there is no such folder\n  try: "));
    assert!(problem(dir.path()).starts_with("DIR: this folder has no run\n  try: "));
    let broken = write(&dir.path().join("line"), &config, &lines(&[START, "{\"event\":\"epoch\"}"]), None);
    let said = problem(&broken);
    assert!(said.starts_with("DIR/line/events.jsonl: line 2: it is not an event: missing field"), "{said}");
    let broken = write(&dir.path().join("text"), &config, "\u{0}\u{1}\n", None);
    assert!(problem(&broken).starts_with("DIR/text/events.jsonl: line 1: it is not an event"));
    let broken = write(&dir.path().join("summary"), &config, "", Some("{".into()));
    assert!(problem(&broken).starts_with("DIR/summary/summary.json: line 1: "));
    fs::write(broken.join("config.toml"), "version = 1\n").unwrap();
    assert!(problem(&broken).starts_with("DIR/summary/config.toml: line 1: "));
}

/// The evidence that is kept in the repository, the oldest of it from before summaries had the paper's numbers.
#[test]
fn the_kept_results_can_be_read() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
    let dirs: Vec<PathBuf> = fs::read_dir(&results)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("summary.json").is_file())
        .collect();
    assert!(dirs.len() >= 4, "{dirs:?}");
    let runs = read_runs(&dirs).unwrap();
    for run in &runs {
        assert_eq!(run.state, Stage::Finished, "{}", run.name);
        assert!(run.test().is_some_and(f64::is_finite) && !run.epochs.is_empty(), "{}", run.name);
    }
    assert!(training_page(&runs).html().len() > 10_000);
}

/// A run with n-grams, cache and dynamic evaluation is judged by them, and different vocabularies are not compared at all.
#[test]
fn the_finding_compares_what_can_be_compared() {
    let dir = tempfile::tempdir().unwrap();
    let config = preset(Size::Small, ModelKind::Re, "my.txt");
    let events = lines(&[START, &epoch(1, "90.0"), &epoch(2, "80.0")]);
    let with = summary("re", "80.0", "75.0").replace(
        "\"curve\"",
        "\"predictor\":{\"plain\":[80.0,75.0],\"full\":[60.0,55.0],\"ngrams\":[70.0,65.0]},\"curve\"",
    );
    let full = write(&dir.path().join("full"), &config, &events, Some(with));
    let plain = write(&dir.path().join("plain"), &config, &events, Some(summary("re", "71.0", "66.0")));
    let smaller = events.replace("\"vocab\":10000", "\"vocab\":3000");
    let other = write(&dir.path().join("other"), &config, &smaller, Some(summary("re", "41.0", "36.0")));
    let lead = |runs: &[&PathBuf]| {
        let runs: Vec<PathBuf> = runs.iter().map(|run| (*run).clone()).collect();
        training_page(&read_runs(&runs).unwrap()).lead
    };
    let said = lead(&[&plain, &full]);
    assert!(said.starts_with("The best is full with a test perplexity of 75.00; 55.00 with n-grams"), "{said}");
    let said = lead(&[&plain, &full, &other]);
    assert!(said.starts_with("These runs have different vocabularies, so their perplexities cannot be comp"), "{said}");
    let page = training_page(&read_runs(&[full, other]).unwrap()).html();
    assert!(!page.contains("<tr class=\"best\">"));
}
