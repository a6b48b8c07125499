//! The files are read back by readers that share nothing with the writers.

use super::*;
use crate::protobuf::independent_reader::{Fields, Value};
use bowline::event::EpochEnd;

/// CRC-32C a bit at a time, and the mask as TensorFlow's documentation has it.
fn masked(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc % 2 == 1 { (crc / 2) ^ 0x82f6_3b78 } else { crc / 2 };
        }
    }
    let (low, high) = (!crc % (1 << 15), !crc / (1 << 15));
    (low * (1 << 17) + high).wrapping_add(0xa282_ead8)
}

/// The messages in a file.
fn records(path: &Path) -> Vec<Fields> {
    let bytes = fs::read(path).unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut records) = (0, Vec::new());
    while at < bytes.len() {
        let length = number(at) as usize;
        assert_eq!(number(at + 4), 0);
        assert_eq!(number(at + 8), masked(&bytes[at..at + 8]), "length at {at}");
        let message = &bytes[at + 12..at + 12 + length];
        assert_eq!(number(at + 12 + length), masked(message), "message at {at}");
        records.push(Fields::parse(message));
        at += 16 + length;
    }
    records
}

/// Every point of a file as (step, curve, value), and the times.
fn points_in(path: &Path) -> (Vec<(i64, String, f32)>, Vec<f64>) {
    let records = records(path);
    assert_eq!(records[0].text(3), "brain.Event:2");
    // A session starts, at step 0: all that a reader may know from an earlier file is void.
    assert_eq!((records[1].message(7).number(1), records[1].number(2)), (1, 0));
    let time = |record: &Fields| match record.all(1).next() {
        Some(Value::Eight(bytes)) => f64::from_le_bytes(*bytes),
        other => panic!("{other:?}"),
    };
    let mut points = Vec::new();
    for record in &records[2..] {
        for value in record.message(5).messages(1) {
            let Some(Value::Four(four)) = value.all(2).next() else { panic!("{value:?}") };
            points.push((record.number(2), value.text(1), f32::from_le_bytes(*four)));
        }
    }
    (points, records.iter().map(time).collect())
}

fn start() -> Event {
    Event::Start {
        time: 1000,
        version: "1".into(),
        model: "real".into(),
        data: "demo".into(),
        data_sha256: String::new(),
        vocab: 10,
        words: [6000, 1, 1],
        unseen: [0, 0],
        parameters: 1,
        epochs: 2,
        steps_per_epoch: 20,
        memory: 1,
        machine: String::new(),
    }
}

fn progress(step: u64, perplexity: f64) -> Event {
    Event::Progress(Progress {
        epoch: 1,
        step,
        epoch_step: step as usize,
        epoch_steps: 20,
        loss: perplexity.ln(),
        perplexity,
        kl: 0.25,
        learning_rate: 1.0,
        gradient_norm: 3.5,
        words_per_second: 100.0,
        eta_seconds: f64::INFINITY,
    })
}

fn epoch(step: u64) -> Event {
    let (loss, kl, learning_rate, seconds) = (4.0, 0.5, 0.9, 70.0);
    Event::Epoch(EpochEnd {
        epoch: 1,
        step,
        loss,
        train: 60.0,
        kl,
        target_kl: None,
        valid: 50.0,
        best: true,
        learning_rate,
        seconds,
    })
}

fn resume(step: u64) -> Event {
    Event::Resume { time: 2000, step, epoch: 1, epochs: 2, over: false }
}

fn end() -> Event {
    Event::End { time: 3000, reason: "done".into(), best_epoch: 1, valid: 49.0, test: f64::INFINITY }
}

/// A run's folder with a log.
struct Run(tempfile::TempDir);

impl Run {
    fn new() -> Run {
        let run = Run(tempfile::tempdir().unwrap());
        fs::write(run.path("config.toml"), "").unwrap();
        fs::write(run.path("events.jsonl"), "").unwrap();
        run
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// What the trainer does: the log first, then those who watch.
    fn emit(&self, watch: &mut dyn Watch, event: &Event) {
        let mut log = fs::read(self.path("events.jsonl")).unwrap();
        log.extend(serde_json::to_string(event).unwrap().into_bytes());
        log.push(b'\n');
        fs::write(self.path("events.jsonl"), log).unwrap();
        watch.event(event);
    }

    /// The one event file that is not empty; at most one more is there.
    #[track_caller]
    fn file(&self) -> PathBuf {
        let files: Vec<_> =
            fs::read_dir(self.path("tensorboard")).unwrap().map(|entry| entry.unwrap().path()).collect();
        let full: Vec<_> = files.iter().filter(|file| fs::metadata(file).unwrap().len() > 0).collect();
        assert!(full.len() == 1 && files.len() <= 2, "{files:?}");
        full[0].clone()
    }
}

/// Somebody who only remembers what was said.
#[derive(Default)]
struct Other(Vec<String>, usize);

impl Watch for Other {
    fn event(&mut self, _: &Event) {
        self.1 += 1;
    }
    fn progress(&mut self, _: &Progress) {}
    fn notice(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }
    fn stop(&self) -> bool {
        true
    }
}

#[test]
fn the_curves_are_those_of_the_log() {
    let run = Run::new();
    let mut other = Other::default();
    let mut watch = TensorBoard::beside(&mut other, run.0.path(), true);
    watch.begin(run.0.path()).unwrap();
    assert!(run.path("tensorboard").is_dir(), "a kill from now on leaves a run that will be resumed with its curves");
    for event in
        [start(), progress(5, 400.0), progress(10, 100.0), epoch(20), Event::SecondTraining { epoch: 2 }, end()]
    {
        run.emit(&mut watch, &event);
    }
    assert!(watch.stop());
    let (points, times) = points_in(&run.file());
    let train = |step, perplexity: f32| {
        [
            (step, "perplexity/train", perplexity),
            (step, "loss/train", f64::from(perplexity).ln() as f32),
            (step, "kl/train", 0.25),
            (step, "learning_rate", 1.0),
            (step, "gradient_norm", 3.5),
            (step, "words_per_second", 100.0),
        ]
    };
    let mut expected: Vec<(i64, &str, f32)> = [train(5, 400.0), train(10, 100.0)].concat();
    expected.extend([
        (20, "perplexity/train", 60.0),
        (20, "perplexity/valid", 50.0),
        (20, "loss/train", 4.0),
        (20, "kl/train", 0.5),
        (20, "learning_rate", 0.9),
        (20, "perplexity/test", f32::INFINITY),
    ]);
    assert!(points.iter().map(|(step, tag, value)| (*step, tag.as_str(), *value)).eq(expected), "{points:?}");
    // 300 words a step, 100 words a second; the epoch took 70 seconds; the end has its own time.
    assert_eq!(times, [1000.0, 1000.0, 1015.0, 1030.0, 1070.0, 3000.0]);
    assert_eq!((other.0.len(), other.1), (0, 6));

    // Made after the fact, the file is the same.
    let again = convert(run.0.path(), &run.path("elsewhere")).unwrap();
    assert_eq!(fs::read(&again).unwrap(), fs::read(run.file()).unwrap());
    assert_eq!(again.file_name().unwrap(), "events.out.tfevents.0000001000.000001.bowline");
}

#[test]
fn a_resumed_run_has_no_step_twice_and_goes_on_by_itself() {
    let run = Run::new();
    let (mut first, mut second) = (Other::default(), Other::default());
    let mut watch = TensorBoard::beside(&mut first, run.0.path(), true);
    for event in [start(), progress(5, 400.0)] {
        run.emit(&mut watch, &event);
    }
    let checkpoint = fs::read(run.path("events.jsonl")).unwrap();
    for event in [progress(10, 100.0), epoch(20)] {
        run.emit(&mut watch, &event);
    }
    let killed = run.file();
    assert_eq!(points_in(&killed).0.len(), 6 + 6 + 5);
    // A kill can leave a record without its end, and a checkpoint is behind the log.
    let bytes = fs::read(&killed).unwrap();
    fs::write(&killed, &bytes[..bytes.len() - 7]).unwrap();
    fs::write(run.path("events.jsonl"), checkpoint).unwrap();
    fs::write(run.path("tensorboard/mine.txt"), "kept").unwrap();

    let mut watch = TensorBoard::beside(&mut second, run.0.path(), false);
    for event in [resume(6), progress(10, 99.0), epoch(20), end()] {
        run.emit(&mut watch, &event);
    }
    assert!(second.0.is_empty(), "{:?}", second.0);
    assert_eq!(fs::read_to_string(run.path("tensorboard/mine.txt")).unwrap(), "kept");
    fs::remove_file(run.path("tensorboard/mine.txt")).unwrap();
    let resumed = run.file();
    assert!(resumed > killed, "a TensorBoard that looks on takes the files in the order of their names");
    let (points, times) = points_in(&resumed);
    let mut steps: Vec<_> = points.iter().map(|(step, tag, _)| (*step, tag)).collect();
    steps.sort();
    steps.dedup();
    assert_eq!(steps.len(), points.len(), "{points:?}");
    assert_eq!(points.len(), 6 + 6 + 5 + 1);
    assert!(points.contains(&(10, "perplexity/train".to_owned(), 99.0)), "{points:?}");
    assert!(times.is_sorted() && times[3] == 2012.0, "{times:?}");
    let again = convert(run.0.path(), &run.path("elsewhere")).unwrap();
    assert_eq!(fs::read(again).unwrap(), fs::read(resumed).unwrap());
}

#[test]
fn nothing_is_written_that_nobody_asked_for() {
    let run = Run::new();
    let mut other = Other::default();
    let mut watch = TensorBoard::beside(&mut other, run.0.path(), false);
    watch.begin(run.0.path()).unwrap();
    for event in [start(), progress(5, 400.0), resume(5), end()] {
        run.emit(&mut watch, &event);
    }
    assert!(!run.path("tensorboard").exists());
    // Asked for later, all is there from the beginning on.
    let mut watch = TensorBoard::beside(&mut other, run.0.path(), true);
    run.emit(&mut watch, &resume(5));
    assert_eq!(points_in(&run.file()).0.len(), 6 + 1);
}

#[test]
fn trouble_is_told_once_and_the_run_goes_on() {
    let run = Run::new();
    fs::write(run.path("tensorboard"), "a file in the way").unwrap();
    let mut other = Other::default();
    let mut watch = TensorBoard::beside(&mut other, run.0.path(), true);
    for event in [start(), progress(5, 400.0), end()] {
        run.emit(&mut watch, &event);
    }
    assert_eq!((other.0.len(), other.1), (1, 3));
    let said = other.0[0].replace(run.0.path().to_str().unwrap(), "DIR");
    assert!(
        said.starts_with("the run continues without TensorBoard curves:\nDIR/tensorboard: cannot create the folder: "),
        "{said}"
    );

    // A log with an unfinished line is one that is being written; one with a strange line is none.
    let log = fs::read_to_string(run.path("events.jsonl")).unwrap();
    fs::write(run.path("events.jsonl"), format!("{log}{{\"event\":\"prog")).unwrap();
    convert(run.0.path(), &run.path("elsewhere")).unwrap();
    fs::write(run.path("events.jsonl"), format!("{log}{{\"event\":\"party\"}}\n")).unwrap();
    let message = convert(run.0.path(), &run.path("elsewhere")).unwrap_err().to_string();
    let message = message.replace(run.0.path().to_str().unwrap(), "DIR");
    assert!(message.starts_with("DIR/events.jsonl: line 4 is no event: unknown variant `party`"), "{message}");
    let message = convert(&run.path("nothing"), &run.path("elsewhere")).unwrap_err().to_string();
    assert!(message.contains("/nothing: there is no such folder\n  try: "), "{message}");
}

/// Somebody who refuses a run as soon as it has a folder.
struct Refusing;

impl Watch for Refusing {
    fn begin(&mut self, run: &Path) -> Result<()> {
        assert!(run.is_dir() && !run.join("config.toml").exists());
        Err(Error::run(run, "not this one", "another"))
    }
    fn event(&mut self, event: &Event) {
        panic!("{event:?}");
    }
    fn progress(&mut self, _: &Progress) {}
    fn notice(&mut self, _: &str) {}
    fn stop(&self) -> bool {
        false
    }
}

#[test]
fn the_choice_is_made_before_there_is_a_run() {
    use bowline::config::{ModelKind, Size, preset};
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("corpus")).unwrap();
    for split in ["train", "valid", "test"] {
        fs::write(dir.path().join(format!("corpus/{split}.txt")), "the cat sat\n".repeat(20)).unwrap();
    }
    let source = dir.path().join("corpus").display().to_string();
    let config = preset(Size::Small, ModelKind::Re, &source);
    let session = bowline::run::Session { threads: 1, isa: bowline_kernels::Isa::detect() };
    let run = dir.path().join("run");
    let error = bowline::run::start(&run, &config, session, &mut Refusing).unwrap_err();
    assert!(error.to_string().ends_with("run: not this one\n  try: another"), "{error}");
    assert!(!run.join("config.toml").exists());
    // The same through the one who writes curves.
    let error = bowline::run::start(&run, &config, session, &mut TensorBoard::beside(&mut Refusing, &run, true));
    assert!(error.unwrap_err().to_string().contains("not this one"));
    assert!(RunFolder::new(&run).tensorboard().is_dir() && !run.join("config.toml").exists());
}
