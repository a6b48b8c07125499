//! Reports: what was measured, as pages, figures and tables that need nothing else to be read.
//!
//! A [`Chart`] or [`Bars`] is a figure and becomes one SVG; a [`Table`] becomes HTML, Markdown or CSV; a [`Page`] holds
//! sections of text, figures and tables and becomes one HTML file without a single address in it. All of them are plain
//! values: the same value gives the same bytes. [`RunRecord`] is a run's folder as far as a reader of results needs it,
//! and [`training_page`] lays several of them side by side.
#![forbid(unsafe_code)]

mod bars;
mod chart;
mod curves;
mod frame;
mod page;
mod predictors;
mod record;
mod scale;
mod table;
mod text;
mod theme;
mod training;

pub use bars::{Bar, Bars};
pub use chart::{Chart, Point, Reference, Series};
pub use curves::{divergence_chart, learning_rate_chart, training_chart, validation_chart};
pub use page::{Block, Figure, Page, Section};
pub use predictors::predictors_section;
pub use record::{Beginning, Measured, RunRecord, Stage, read_runs};
pub use scale::{Axis, Scale};
pub use table::{Align, Cell, Column, Table};
pub use text::{date, duration};
pub use training::{curves_section, results_table, run_section, training_page};

#[cfg(test)]
mod xml_check;
