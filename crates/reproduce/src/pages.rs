//! What an experiment shows: one page with its tables and figures, made from the cells that are there.

use super::theory::{BETAS, TAU, TAUS};
use super::{
    Cell as RunCell, Experiment, Prediction, SystemRow, Tendencies, benchmark, ideal, perplexity, phrases, systems,
};
use bowline::config::{Size, TargetSource};
use bowline::paper;
use bowline::wording::grouped;
use bowline_report::{
    Axis, Block, Cell, Chart, Column, Page, Point, Reference, RunRecord, Section, Series, Table, curves_section,
    run_section, validation_chart,
};

/// How far the classifier of a finished cell is from its word vectors, and how far its training came.
#[derive(Clone, Debug)]
pub struct Distance {
    /// The cell.
    pub cell: RunCell,
    /// The distance between the spans of L^T and W.
    pub distance: f64,
    /// The training loss per word of the first epoch and of the last.
    pub losses: [f64; 2],
}

/// All that was found of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The cells that were begun.
    pub runs: Vec<RunRecord>,
    /// Figure 1: what was found in each finished cell.
    pub distances: Vec<Distance>,
    /// Table 4: the models' names, what they expect, and what was measured of them.
    pub names: Vec<String>,
    /// The predictions.
    pub predictions: Vec<Prediction>,
    /// The tendencies, in the order of the names.
    pub tendencies: Vec<Tendencies>,
    /// Table 3: what there is of each system.
    pub systems: Vec<SystemRow>,
    /// The built-in corpus' least possible perplexity on its test split.
    pub floor: Option<f64>,
}

/// The page of an experiment, and its tables for machines.
pub fn page(experiment: Experiment, results: &Results) -> (Page, Vec<Table>) {
    let (title, lead, mut blocks, machine) = match experiment {
        Experiment::Table1 => {
            let mut places: Vec<(&str, Size)> =
                paper::cells().filter(|(data, _)| !paper::WIKITEXT_2_HALVES.contains(data)).collect();
            // Corpora that the paper does not have come after those it has.
            for config in results.runs.iter().filter_map(|run| run.config.network()) {
                let place = (config.data.source.as_str(), config.size);
                if !places.contains(&place) {
                    places.push(place);
                }
            }
            perplexities("table1", "Table 1: perplexity of the four models", &places, results)
        }
        Experiment::Table2 => {
            let places = paper::WIKITEXT_2_HALVES.map(|half| (half, Size::Small));
            perplexities("table2", "Table 2: small models on the halves of WikiText-2", &places, results)
        }
        Experiment::Table3 => {
            let table = benchmark::table(&results.runs);
            let lead = "What the paper compares itself with, quoted, and the systems that were run here, measured.";
            let blocks = vec![systems::table(&results.systems).into(), table.into()];
            ("Table 3: systems on the Penn Treebank", lead, blocks, vec![systems::machine_table(&results.systems)])
        }
        Experiment::Table4 => table4(results),
        Experiment::Figure1 => figure1(results),
        Experiment::Figure2 => {
            let lead = "Validation perplexity during training, after each epoch.";
            let blocks = vec![Block::from(validation_chart(&results.runs))];
            ("Figure 2: the four models in training", lead, blocks, Vec::new())
        }
        Experiment::Ideal => ideal_page(results),
    };
    let with_curves = matches!(experiment, Experiment::Table1 | Experiment::Table2);
    if with_curves && !results.runs.is_empty() {
        blocks.extend(curves_section(&results.runs).blocks);
    }
    let mut sections = vec![Section::new("Results", blocks)];
    // A figure of dozens of runs says what it is made of in its table.
    if results.runs.len() <= 24 {
        sections.extend(results.runs.iter().map(run_section));
    }
    (Page { title: title.to_owned(), lead: lead.to_owned(), sections }, machine)
}

/// The tables of a page that are seen at once.
pub fn tables(page: &Page) -> impl Iterator<Item = &Table> {
    let blocks = page.sections.iter().flat_map(|section| &section.blocks);
    blocks.filter_map(|block| if let Block::Table(table) = block { Some(table) } else { None })
}

type Parts<'a> = (&'a str, &'a str, Vec<Block>, Vec<Table>);

fn perplexities<'a>(name: &str, title: &'a str, places: &[(&str, Size)], results: &Results) -> Parts<'a> {
    let table = perplexity::table(&format!("{name}-compared"), title, places, &results.runs);
    let lead = "The paper's numbers and ours; cells that were not run say so.";
    (title, lead, vec![table.into()], vec![perplexity::machine_table(name, &results.runs)])
}

/// Mean and spread of the distances at every point of both panels.
fn figure1(results: &Results) -> Parts<'static> {
    type Panel<'a> = [(f64, Vec<&'a Distance>)];
    let at = |beta: f32, tau: f32| -> Vec<&Distance> {
        let of_point = |cell: &RunCell| cell.config.augment.beta == beta && cell.config.augment.tau == tau;
        results.distances.iter().filter(|found| of_point(&found.cell)).collect()
    };
    let mean = |x: f64, found: &[&Distance], what: fn(&Distance) -> f64| {
        Point::mean(x, &found.iter().map(|found| what(found)).collect::<Vec<f64>>())
    };
    let panel_a: Vec<_> = BETAS.iter().map(|&beta| (f64::from(beta), at(beta, TAU))).collect();
    let panel_b: Vec<_> = TAUS.iter().map(|&tau| (f64::from(tau), at(1.0, tau))).collect();
    let line = |panel: &Panel| -> Vec<Point> {
        panel.iter().filter_map(|(x, found)| mean(*x, found, |found| found.distance)).collect()
    };
    let chart = |name: &str, title: &str, description: &str, x: Axis, panel: &Panel| Chart {
        name: name.to_owned(),
        title: title.to_owned(),
        description: description.to_owned(),
        x,
        y: Axis::linear("subspace distance").from_to(0.0, 1.0),
        series: vec![Series::line("mean over runs", line(panel)).look(0)],
        references: Vec::new(),
    };
    let mut a = chart(
        "figure1-a",
        "(a) Distance by the part of the augmented loss, at temperature 10",
        "The distance between the spans of L^T and W falls as more of the loss is J_aug. Bars: one standard deviation.",
        Axis::linear("beta").from_to(0.0, 1.0),
        &panel_a,
    );
    a.references.push(Reference::Point { x: 1.0, y: 0.06, label: "the paper".to_owned(), look: 0 });
    let b = chart(
        "figure1-b",
        "(b) Distance by temperature, with the augmented loss alone",
        "The higher the temperature, the nearer W is to the span of L^T. Bars: one standard deviation.",
        Axis::log("tau").at(TAUS.map(f64::from).to_vec()),
        &panel_b,
    );
    let row = |panel: &str, beta: f64, tau: f64, found: &[&Distance]| {
        let point = mean(0.0, found, |found| found.distance);
        vec![
            Cell::text(panel),
            Cell::number(beta, 2),
            Cell::number(tau, 1),
            Cell::maybe(point.map(|p| p.y), 4),
            point.and_then(|p| p.spread).map_or(Cell::Empty, |(low, high)| Cell::number((high - low) / 2.0, 4)),
            Cell::maybe(mean(0.0, found, |found| found.losses[0]).map(|p| p.y), 3),
            Cell::maybe(mean(0.0, found, |found| found.losses[1]).map(|p| p.y), 3),
            Cell::number(found.len() as f64, 0),
        ]
    };
    let mut rows: Vec<Vec<Cell>> = panel_a.iter().map(|(beta, found)| row("a", *beta, f64::from(TAU), found)).collect();
    rows.extend(panel_b.iter().map(|(tau, found)| row("b", 1.0, *tau, found)));
    let table = Table {
        name: "figure1-points".to_owned(),
        caption: "Distance between the spans of L^T and W".to_owned(),
        columns: vec![
            Column::text("panel"),
            Column::number("beta"),
            Column::number("tau"),
            Column::number("mean distance").key("mean"),
            Column::number("standard deviation").key("deviation"),
            Column::number("loss of the first epoch").key("first_loss"),
            Column::number("of the last").key("last_loss"),
            Column::number("runs"),
        ],
        rows,
        notes: vec!["0 is the same span, 1 orthogonal; two random subspaces would be at 0.985.".to_owned()],
    };
    let blocks = vec![Block::from(a), Block::from(b), Block::from(table)];
    let lead = "A piece of 20,000 words of PTB, a 2-layer LSTM of 300 units, unit word vectors, the loss \
                beta tau^2 |V| J_aug + (1 - beta) J.";
    ("Figure 1: the augmented loss brings W into the span of L^T", lead, blocks, vec![figure1_machine(results)])
}

/// `panel,beta,tau,run,distance,first_loss,last_loss`; the point that both panels share is in both.
fn figure1_machine(results: &Results) -> Table {
    let mut rows = Vec::new();
    for (panel, wanted) in [("a", true), ("b", false)] {
        for Distance { cell, distance, losses } in &results.distances {
            let (beta, tau) = (cell.config.augment.beta, cell.config.augment.tau);
            if (wanted && tau == TAU) || (!wanted && beta == 1.0) {
                let run = cell.folder.rsplit('-').next().unwrap_or_default();
                rows.push(vec![
                    Cell::text(panel),
                    Cell::number(f64::from(beta), 2),
                    Cell::number(f64::from(tau), 2),
                    Cell::text(run),
                    Cell::number(*distance, 6),
                    Cell::number(losses[0], 4),
                    Cell::number(losses[1], 4),
                ]);
            }
        }
    }
    Table {
        name: "figure1".to_owned(),
        columns: ["panel", "beta", "tau", "run", "distance", "first_loss", "last_loss"].map(Column::text).to_vec(),
        rows,
        ..Table::default()
    }
}

fn table4(results: &Results) -> Parts<'static> {
    let names: Vec<&str> = results.names.iter().map(String::as_str).collect();
    let mut blocks: Vec<Block> = phrases::tables(&names, &results.predictions).into_iter().map(Block::from).collect();
    if !results.tendencies.is_empty() {
        blocks.push(Block::Heading("The paper's observations, measured over the whole test split".to_owned()));
        blocks.push(tendency_table(&names, &results.tendencies).into());
    }
    let lead = "The ten most likely next words of the baseline and of +REAL. The word that came is marked with >.";
    ("Table 4: what comes next?", lead, blocks, Vec::new())
}

fn tendency_table(names: &[&str], tendencies: &[Tendencies]) -> Table {
    let mut columns = vec![Column::text("mean probability of")];
    columns.extend(names.iter().map(|name| Column::number(*name)));
    let words = tendencies.first().map_or(0, |t| t.words.len());
    let mut rows: Vec<Vec<Cell>> = (0..words)
        .map(|i| {
            let mut row = vec![Cell::text(format!("{} where it did not come", tendencies[0].words[i].0))];
            row.extend(tendencies.iter().map(|t| t.words.get(i).map_or(Cell::Empty, |w| Cell::number(w.1, 4))));
            row
        })
        .collect();
    let all = |title: &str, value: &dyn Fn(&Tendencies) -> f64| {
        let mut row = vec![Cell::text(title)];
        row.extend(tendencies.iter().map(|t| Cell::number(value(t), 4)));
        row
    };
    rows.push(all("the word that came", &|t| t.target));
    rows.push(all("the ten words nearest to the word that came", &|t| t.near));
    Table {
        name: "table4-tendencies".to_owned(),
        caption: "What the paper observed, as numbers".to_owned(),
        columns,
        rows,
        notes: vec!["Near is what is near in the word vectors of the last of the models, for all of them.".to_owned()],
    }
}

fn ideal_page(results: &Results) -> Parts<'static> {
    let of = |run: &RunRecord| {
        let target = match run.config.network().filter(|config| config.model.augmented()) {
            None => 0,
            Some(config) if config.augment.target == TargetSource::Embedding => 1,
            Some(_) => 2,
        };
        (target, run.config.data().train_words)
    };
    let tests = |target: usize, words: usize| -> Vec<f64> {
        results.runs.iter().filter(|run| of(run) == (target, words)).filter_map(RunRecord::test).collect()
    };
    const NAMES: [&str; 3] = ["none: the baseline", "the word vectors' estimate", "the truth"];
    let points = |target: usize| -> Vec<Point> {
        ideal::WORDS.iter().filter_map(|&words| Point::mean(words as f64, &tests(target, words))).collect()
    };
    let mut chart = Chart {
        name: "ideal-perplexity".to_owned(),
        title: "Test perplexity by the words there were to learn from".to_owned(),
        description: "Three ways to augment the loss on the same training sets of the built-in corpus.".to_owned(),
        x: Axis::log("training words").at(ideal::WORDS.map(|w| w as f64).to_vec()),
        y: Axis::log("test perplexity"),
        series: (0..ideal::TARGETS.len()).map(|i| Series::line(NAMES[i], points(i)).look(i)).collect(),
        references: Vec::new(),
    };
    if let Some(floor) = results.floor {
        chart.references.push(Reference::Across { y: floor, label: "the least possible".to_owned(), look: None });
    }
    let estimated = results.runs.iter().filter(|run| of(run).0 == 1);
    let gap = Chart {
        name: "ideal-estimate".to_owned(),
        title: "How far the estimate is from the truth".to_owned(),
        description: "Mean KL(truth || y~) on the validation split as training goes on; y~ from the word vectors at \
                      its own temperature."
            .to_owned(),
        x: Axis::whole("epoch"),
        y: Axis::linear("nats a word"),
        series: estimated
            .enumerate()
            .map(|(i, run)| {
                let points = run.epochs.iter().filter_map(|e| Some(Point::new(f64::from(e.epoch), e.target_kl?)));
                Series::line(format!("{} words", grouped(run.config.data().train_words)), points.collect::<Vec<_>>())
                    .look(i)
            })
            .collect(),
        references: Vec::new(),
    };
    let rows = ideal::WORDS.iter().map(|&words| {
        let mut row = vec![Cell::number(words as f64, 0)];
        row.extend((0..3).map(|target| Cell::maybe(Point::mean(0.0, &tests(target, words)).map(|p| p.y), 2)));
        row
    });
    let table = Table {
        name: "ideal".to_owned(),
        caption: "Test perplexity by what y~ is".to_owned(),
        columns: vec![
            Column::number("training words").key("words"),
            Column::number(NAMES[0]).key("none"),
            Column::number(NAMES[1]).key("embedding"),
            Column::number(NAMES[2]).key("truth"),
        ],
        rows: rows.collect(),
        notes: Vec::new(),
    };
    let lead = "Section 3 argues from a y~ that is the true distribution, which is known for the built-in corpus.";
    let blocks = vec![Block::from(chart), Block::from(table), Block::from(gap)];
    ("The ideal case: y~ is the truth", lead, blocks, Vec::new())
}
