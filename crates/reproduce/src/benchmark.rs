//! Table 3: our systems on PTB beside those the paper compares itself with.

use bowline_report::{Cell, Column, RunRecord, Table};

/// Model, parameters, validation and test perplexity as the paper's Table 3 has them.
const PUBLISHED: [(&str, &str, Option<f64>, f64); 15] = [
    ("RNN (Mikolov and Zweig 2012)", "6M", None, 124.7),
    ("RNN+LDA (Mikolov and Zweig 2012)", "7M", None, 113.7),
    ("RNN+LDA+KN-5+Cache (Mikolov and Zweig 2012)", "9M", None, 92.0),
    ("Deep RNN (Pascanu et al. 2013)", "6M", None, 107.5),
    ("Sum-Prod Net (Cheng et al. 2014)", "5M", None, 100.0),
    ("LSTM, medium (Zaremba et al. 2014)", "20M", Some(86.2), 82.7),
    ("CharCNN (Kim et al. 2015)", "19M", None, 78.9),
    ("LSTM, large (Zaremba et al. 2014)", "66M", Some(82.2), 78.4),
    ("VD-LSTM, large, untied, MC (Gal 2015)", "66M", None, 73.4),
    ("Pointer Sentinel-LSTM, medium (Merity et al. 2016)", "21M", Some(72.4), 70.9),
    ("38 large LSTMs (Zaremba et al. 2014)", "2.51B", Some(71.9), 68.7),
    ("10 large VD-LSTMs (Gal 2015)", "660M", None, 68.7),
    ("VD-RHN (Zilly et al. 2016)", "32M", Some(71.2), 68.5),
    ("VD-LSTM +REAL, large (the paper)", "51M", Some(71.1), 68.5),
    ("VD-RHN +RE (Zilly et al. 2016)", "24M", Some(68.1), 66.0),
];

/// The published systems, quoted, and ours, measured; each part from the worst to the best.
pub(super) fn table(runs: &[RunRecord]) -> Table {
    let mut rows: Vec<Vec<Cell>> = PUBLISHED
        .iter()
        .map(|&(model, parameters, valid, test)| {
            let source = Cell::text("published");
            vec![Cell::text(model), Cell::text(parameters), Cell::quoted(valid, 1), Cell::quoted(Some(test), 1), source]
        })
        .collect();
    let mut ours: Vec<_> = runs.iter().filter_map(|run| run.summary.as_ref().map(|summary| (run, summary))).collect();
    ours.sort_by(|a, b| b.1.test.total_cmp(&a.1.test));
    rows.extend(ours.into_iter().map(|(run, summary)| {
        vec![
            Cell::text(format!("{}, {}", run.config.title(), run.config.size())),
            Cell::text(format!("{:.2}M", summary.parameters as f64 / 1e6)),
            Cell::number(summary.valid, 2),
            Cell::number(summary.test, 2),
            Cell::text("measured"),
        ]
    }));
    Table {
        name: "table3".to_owned(),
        caption: "Systems on the Penn Treebank: as published, and measured here".to_owned(),
        columns: vec![
            Column::text("model"),
            Column::text("parameters"),
            Column::number("valid"),
            Column::number("test"),
            Column::text("source"),
        ],
        rows,
        notes: vec!["Rows marked as measured come from the runs below the folder of this page.".to_owned()],
    }
}
