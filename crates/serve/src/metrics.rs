//! What the server counts, as Prometheus reads it (text format 0.0.4).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Upper ends of the latency buckets, in seconds.
const BUCKETS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Counters of the whole server.
#[derive(Debug, Default)]
pub struct Metrics {
    /// By path and status.
    requests: Mutex<BTreeMap<(String, u16), u64>>,
    /// By path.
    latencies: Mutex<BTreeMap<String, Histogram>>,
}

/// Counters of one model, kept by its worker.
#[derive(Debug, Default)]
pub struct ModelMetrics {
    /// Words whose probability was computed.
    pub scored: AtomicU64,
    /// Words made up.
    pub generated: AtomicU64,
    /// Requests that wait or are being worked on.
    pub queued: AtomicU64,
    /// Requests that found no place to wait.
    pub refused: AtomicU64,
    /// Passes through the network.
    pub batches: AtomicU64,
}

#[derive(Debug, Default)]
struct Histogram {
    /// How many took at most so long, not counting those of the buckets before.
    counts: [u64; BUCKETS.len()],
    count: u64,
    sum: f64,
}

impl Metrics {
    /// One request has been answered; a streamed answer counts when it begins.
    pub fn answered(&self, path: &str, status: u16, time: Duration) {
        let seconds = time.as_secs_f64();
        *self.requests.lock().unwrap_or_else(PoisonError::into_inner).entry((path.to_owned(), status)).or_default() +=
            1;
        let mut latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        let histogram = latencies.entry(path.to_owned()).or_default();
        if let Some(bucket) = BUCKETS.iter().position(|&end| seconds <= end) {
            histogram.counts[bucket] += 1;
        }
        histogram.count += 1;
        histogram.sum += seconds;
    }

    /// The whole page.
    pub fn to_text<'a>(
        &self,
        connections: usize,
        lost: Option<u64>,
        models: impl Iterator<Item = (&'a str, &'a ModelMetrics)> + Clone,
    ) -> String {
        let mut out = String::new();
        head(&mut out, "bowline_requests_total", "counter", "Requests answered.");
        for ((path, status), count) in self.requests.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            line(&mut out, "bowline_requests_total", &format!("path=\"{path}\",status=\"{status}\""), *count as f64);
        }
        let name = "bowline_request_seconds";
        head(&mut out, name, "histogram", "Time to the answer, or to the beginning of a streamed one.");
        for (path, histogram) in self.latencies.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let mut sum = 0;
            for (end, count) in BUCKETS.iter().zip(histogram.counts) {
                sum += count;
                line(&mut out, &format!("{name}_bucket"), &format!("path=\"{path}\",le=\"{end}\""), sum as f64);
            }
            let path = format!("path=\"{path}\"");
            line(&mut out, &format!("{name}_bucket"), &format!("{path},le=\"+Inf\""), histogram.count as f64);
            line(&mut out, &format!("{name}_sum"), &path, histogram.sum);
            line(&mut out, &format!("{name}_count"), &path, histogram.count as f64);
        }
        head(&mut out, "bowline_connections", "gauge", "Open connections.");
        let _ = writeln!(out, "bowline_connections {connections}");
        if let Some(lost) = lost {
            let name = "bowline_access_log_lost_total";
            head(&mut out, name, "counter", "Requests that could not be written to the access log.");
            let _ = writeln!(out, "{name} {lost}");
        }
        type Counter = fn(&ModelMetrics) -> &AtomicU64;
        let counters: [(&str, &str, &str, &str, Counter); 5] = [
            ("bowline_tokens_total", "counter", "Words whose probability was computed.", "scored", |m| &m.scored),
            ("bowline_tokens_total", "counter", "", "generated", |m| &m.generated),
            ("bowline_queue_length", "gauge", "Requests waiting or at work.", "", |m| &m.queued),
            ("bowline_queue_refused_total", "counter", "Requests that found the queue full.", "", |m| &m.refused),
            ("bowline_batches_total", "counter", "Passes through the network.", "", |m| &m.batches),
        ];
        for (name, kind, help, what, counter) in counters {
            if !help.is_empty() {
                let help = if what.is_empty() { help } else { "Words scored and words generated." };
                head(&mut out, name, kind, help);
            }
            for (model, metrics) in models.clone() {
                let kind = if what.is_empty() { String::new() } else { format!(",kind=\"{what}\"") };
                let labels = format!("model=\"{}\"{kind}", escape(model));
                line(&mut out, name, &labels, counter(metrics).load(Ordering::Relaxed) as f64);
            }
        }
        out
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(out: &mut String, name: &str, labels: &str, value: f64) {
    let _ = writeln!(out, "{name}{{{labels}}} {value}");
}

/// A label's value: a model is named after its folder, which may be called anything.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_add_up() {
        let metrics = Metrics::default();
        for milliseconds in [1, 2, 30, 700, 100_000] {
            metrics.answered("/v1/completions", 200, Duration::from_millis(milliseconds));
        }
        metrics.answered("/v1/completions", 400, Duration::from_micros(1));
        let model = ModelMetrics::default();
        model.scored.store(7, Ordering::Relaxed);
        let text = metrics.to_text(3, Some(2), [("a \"b\"", &model)].into_iter());
        for expected in [
            "bowline_requests_total{path=\"/v1/completions\",status=\"200\"} 5\n",
            "bowline_requests_total{path=\"/v1/completions\",status=\"400\"} 1\n",
            "bowline_request_seconds_bucket{path=\"/v1/completions\",le=\"0.001\"} 2\n",
            "bowline_request_seconds_bucket{path=\"/v1/completions\",le=\"0.0025\"} 3\n",
            "bowline_request_seconds_bucket{path=\"/v1/completions\",le=\"0.05\"} 4\n",
            "bowline_request_seconds_bucket{path=\"/v1/completions\",le=\"30\"} 5\n",
            "bowline_request_seconds_bucket{path=\"/v1/completions\",le=\"+Inf\"} 6\n",
            "bowline_request_seconds_count{path=\"/v1/completions\"} 6\n",
            "bowline_connections 3\n",
            "bowline_access_log_lost_total 2\n",
            "bowline_tokens_total{model=\"a \\\"b\\\"\",kind=\"scored\"} 7\n",
            "bowline_queue_length{model=\"a \\\"b\\\"\"} 0\n",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
        assert_eq!(text.matches("# TYPE bowline_tokens_total").count(), 1);
    }
}
