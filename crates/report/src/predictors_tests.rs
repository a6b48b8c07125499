//! A report of a run with, without, and with outdated measurements of its ways of predicting.

use super::super::record::read_runs;
use super::super::training::training_page;
use super::super::xml_check::check;
use super::*;
use bowline::config::{ModelKind, Size, preset};
use std::fs;
use std::path::Path;

fn table() -> PredictorTable {
    let row = |technique: &str, models: usize, test: f64, relative: f64| PredictorRow {
        technique: technique.into(),
        settings: format!("settings <of> {technique}"),
        models,
        valid: test + 3.25,
        test,
        microseconds: 120.0 * relative,
        relative,
    };
    PredictorTable {
        model: "re".into(),
        weights: "w".into(),
        data: "ptb".into(),
        tokens: [73_759, 82_429],
        threads: 2,
        rows: vec![
            row("static", 1, 85.0, 1.0),
            row("dynamic + cache", 1, 68.0, 5.5),
            row("static + KN-5", 2, 76.5, 1.01),
            row("KN-5 alone", 1, 140.0, 0.02),
            row("broken", 1, f64::INFINITY, 1.0),
        ],
        ..PredictorTable::default()
    }
}

fn run(dir: &Path) -> RunRecord {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("config.toml"), preset(Size::Small, ModelKind::Re, "ptb").to_toml().unwrap()).unwrap();
    read_runs(&[dir.to_path_buf()]).unwrap().remove(0)
}

#[test]
fn a_report_shows_the_ways_of_predicting_where_they_were_measured() {
    let dir = tempfile::tempdir().unwrap();
    let (place, out) = (dir.path().join("re"), dir.path().join("out"));
    let without = run(&place);
    let plain = training_page(std::slice::from_ref(&without));
    assert_eq!(predictors_section(&without), None);
    table().save(&place).unwrap();
    let with = run(&place);
    let page = training_page(&[with]);
    assert_eq!(page.sections.len(), plain.sections.len() + 1);
    assert_eq!(page.sections[1].title, "Ways of predicting of re");
    let rest: Vec<_> = page.sections.iter().filter(|section| !section.title.starts_with("Ways")).cloned().collect();
    assert_eq!(rest, plain.sections);

    page.write(&out).unwrap();
    let svg = fs::read_to_string(out.join("predictor-bars-re.svg")).unwrap();
    check(&svg).unwrap_or_else(|problem| panic!("{problem}"));
    for text in [
        ">68.00 (660 \u{b5}s, 5.5\u{d7})<",
        ">several models<",
        "The lowest is dynamic + cache with 68.00, \u{2212}20.0%.",
        "static + KN-5: 76.50 (121 \u{b5}s, 1.0\u{d7}).",
        "KN-5 alone: 140.00 (2.4 \u{b5}s, 0.02\u{d7}).",
        "prefers-color-scheme:dark",
    ] {
        assert!(svg.contains(text), "{text} {svg}");
    }
    let csv = fs::read_to_string(out.join("predictors-re.csv")).unwrap();
    assert!(
        csv.starts_with(
            "technique,valid,test,change_percent,microseconds_per_token,relative_cost,settings\n\
             static,88.25,85,0,120,1,settings <of> static\n\
             dynamic + cache,71.25,68,-20,660,5.5,"
        ),
        "{csv}"
    );
    let html = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(html.contains("settings &lt;of&gt; static") && html.contains("82,429 on test"));
    assert!(!html.contains("other weights"), "there are no weights in the folder to be others");
}

#[test]
fn figures_of_other_weights_are_marked_and_damaged_ones_named() {
    use bowline::model_folder::{Contents, ModelCard, ModelFolder};
    use bowline::params::Params;
    use bowline::spec::ModelSpec;
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("re");
    run(&place);
    let params = Params::zeros(&ModelSpec::paper(2, 2, 1, true));
    let contents = Contents {
        model: "re",
        params: &params,
        vocabulary: "a\n<eos>\n",
        metadata: Vec::new(),
        card: &ModelCard::default(),
    };
    ModelFolder::save(place.join("best"), &contents).unwrap();
    let marked = |weights: String| {
        PredictorTable { weights, ..table() }.save(&place).unwrap();
        training_page(&[run(&place)]).html().contains("are of other weights")
    };
    assert!(marked("w".to_owned()));
    assert!(!marked(bowline::predictor::fingerprint(&params)));
    fs::write(place.join("predictors.json"), "[]").unwrap();
    let said = read_runs(&[place]).unwrap_err().to_string();
    assert!(said.contains("predictors.json: line 1: ") && said.contains("\n  try: remove the file"), "{said}");
}
