//! Teachers: trained models whose distributions are `y~` of the augmented loss (the paper's own remark at the end of section 3;
//! Hinton et al. 2015).
//!
//! `y~` is the mean over the teachers of `softmax(z / tau)`. They read the windows that the student reads, without dropout, with
//! their states carried from window to window and empty at the beginning of an epoch; so what they say of a word is a function of
//! the text alone. When a run is resumed in the middle of an epoch, they read its beginning again.

use super::setup;
use crate::batch::{Ahead, Streams, Window};
use crate::compute::Compute;
use crate::config::{Config, TargetSource};
use crate::corpus::{Corpus, Ids};
use crate::error::{Error, Result};
use crate::loaded_model::LoadedModel;
use crate::model::{Network, State, Use};
use crate::params::Params;
use crate::vocabulary::Vocabulary;
use std::path::Path;
use std::sync::Arc;

/// All teachers of a run.
pub(super) struct Teachers {
    all: Vec<Teacher>,
    tau: f32,
    /// The epoch whose windows they are reading, and the next of them.
    next: (u32, usize),
    window: Window,
    ahead: Ahead,
    /// (T, B, V): what one of several says.
    room: Vec<f32>,
}

struct Teacher {
    network: Network,
    params: Arc<Params>,
    state: State,
}

/// The settings with the teachers' hashes in them, for a new run; others as they are.
pub(super) fn recorded(config: &Config, vocabulary: &Vocabulary) -> Result<Config> {
    let mut config = config.clone();
    let models = load(&config, vocabulary)?;
    config.augment.teachers_sha256 = models.iter().map(LoadedModel::mark).collect();
    Ok(config)
}

/// The teachers that the settings name: networks with the words of the text and, where they are recorded, the weights of old.
fn load(config: &Config, vocabulary: &Vocabulary) -> Result<Vec<LoadedModel>> {
    let augment = &config.augment;
    if augment.target != TargetSource::Teacher {
        return Ok(Vec::new());
    }
    if augment.teachers.is_empty() {
        let advice = "`--teacher MODEL`, once for each, with the folder of a trained model or of its run";
        return Err(Error::config("augment.teachers", "the target is a teacher's, and there is none", advice));
    }
    let mut hashes = augment.teachers_sha256.iter();
    let one = |path: &String| {
        let path = Path::new(path);
        let model = LoadedModel::load(path)?;
        model.require_network("states that go along with the streams of a training")?;
        check_words(path, &model, vocabulary)?;
        if hashes.next().is_some_and(|hash| *hash != model.mark()) {
            let problem = "this teacher's weights have changed since the run began";
            return Err(Error::model(path, "weights", problem, "restore the old model, or start a new run"));
        }
        Ok(model)
    };
    augment.teachers.iter().map(one).collect()
}

fn check_words(path: &Path, teacher: &LoadedModel, vocabulary: &Vocabulary) -> Result<()> {
    if teacher.vocabulary == *vocabulary {
        return Ok(());
    }
    let (theirs, ours) = (teacher.vocabulary.len(), vocabulary.len());
    let problem = match teacher.vocabulary.words().find(|word| vocabulary.id(word).is_none()) {
        _ if theirs != ours => format!("this teacher knows {theirs} words, and the text has {ours}"),
        Some(word) => format!("this teacher knows the word `{word}`, which the text does not have"),
        None => "this teacher has the words of the text in another order".to_owned(),
    };
    let advice = "a teacher trained on the same text with the same vocabulary settings";
    Err(Error::model(path, "vocabulary", problem, advice))
}

impl Teachers {
    /// The teachers of a run, where it has any.
    pub(super) fn new(config: &Config, corpus: &Corpus, compute: &Compute) -> Result<Option<Teachers>> {
        let steps = setup::streams(config, &corpus.train.ids, 1).longest();
        let teacher = |model: LoadedModel| {
            let params = Arc::clone(model.require_network("weights")?);
            let mut network = Network::new(params.spec(), compute.clone(), Use::Evaluate, steps, config.batch);
            network.pack(&params, Use::Evaluate);
            let state = State::zeros(params.spec(), config.batch);
            Ok(Teacher { network, params, state })
        };
        let all = load(config, &corpus.vocabulary)?.into_iter().map(teacher).collect::<Result<Vec<Teacher>>>()?;
        let tau = config.augment.tau;
        let (window, ahead) = Default::default();
        let teachers = Teachers { all, tau, next: (0, 0), window, ahead, room: Vec::new() };
        Ok((!teachers.all.is_empty()).then_some(teachers))
    }

    /// Writes `y~` of each word of an epoch's window to `out`, (T, B, V). False if asked to stop before: then nothing is there.
    pub(super) fn fill(
        &mut self,
        streams: &Streams<'_, Ids>,
        (epoch, index): (u32, usize),
        out: &mut [f32],
        stop: &dyn Fn() -> bool,
    ) -> Result<bool> {
        if self.next.0 != epoch || self.next.1 > index {
            self.all.iter_mut().for_each(|teacher| teacher.state.reset());
            self.next = (epoch, 0);
        }
        while self.next.1 < index {
            if stop() {
                return Ok(false);
            }
            self.read(streams)?;
        }
        self.read(streams)?;
        let shape = (self.window.steps, self.window.batch);
        let share = 1.0 / self.all.len() as f32;
        for (i, teacher) in self.all.iter().enumerate() {
            if i == 0 {
                teacher.distributions(shape, self.tau, out);
                continue;
            }
            self.room.resize(out.len(), 0.0);
            teacher.distributions(shape, self.tau, &mut self.room);
            out.iter_mut().zip(&self.room).for_each(|(sum, y)| *sum += y);
        }
        if self.all.len() > 1 {
            out.iter_mut().for_each(|y| *y *= share);
        }
        Ok(true)
    }

    /// Reads the next window.
    fn read(&mut self, streams: &Streams<'_, Ids>) -> Result<()> {
        streams.read_ahead(self.next.1, &mut self.window, &mut self.ahead)?;
        self.next.1 += 1;
        for teacher in &mut self.all {
            teacher.network.read(&teacher.params, &self.window, &mut teacher.state, None);
        }
        Ok(())
    }
}

impl Teacher {
    /// What it says after each word of the window that it read last.
    fn distributions(&self, (steps, batch): (usize, usize), tau: f32, out: &mut [f32]) {
        self.network.distributions(&self.params, self.network.outlook(steps, batch), tau, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ModelKind, Size, preset};
    use crate::eval::Evaluator;
    use crate::model_folder::{Contents, ModelCard, ModelFolder};
    use crate::rng::{Purpose, Stream, unit};
    use crate::spec::ModelSpec;
    use std::path::PathBuf;

    /// A model with random weights.
    fn model(dir: &Path, name: &str, seed: u64, words: &str) -> PathBuf {
        let mut params = Params::zeros(&ModelSpec::paper(words.lines().count(), 6, 1, seed.is_multiple_of(2)));
        Stream::new(seed, Purpose::Weights, 0).fill(params.data_mut(), |r| 4.0 * (unit(r) - 0.5));
        let kind = if seed.is_multiple_of(2) { "re" } else { "vd-lstm" };
        let (card, path) = (ModelCard::default(), dir.join(name));
        let contents = Contents { model: kind, params: &params, vocabulary: words, metadata: Vec::new(), card: &card };
        ModelFolder::save(&path, &contents).unwrap();
        path
    }

    fn corpus(dir: &Path) -> (Corpus, Config) {
        let text: String = (0..40).map(|i| ["a b c d\n", "b d\n", "c a a\n"][i * i % 3]).collect();
        for split in ["train", "valid", "test"] {
            std::fs::write(dir.join(format!("{split}.txt")), &text).unwrap();
        }
        let mut config = preset(Size::Small, ModelKind::Re, dir.to_str().unwrap());
        (config.batch, config.unroll, config.augment.tau) = (3, 4, 1.0);
        config.augment.target = TargetSource::Teacher;
        (super::super::open_corpus(&config.data).unwrap(), config)
    }

    #[test]
    fn the_target_is_the_mean_of_what_the_teachers_say_of_the_text_so_far() {
        let place = tempfile::tempdir().unwrap();
        let (corpus, mut config) = corpus(place.path());
        let words = corpus.vocabulary.to_text();
        let folders = [1, 2].map(|seed| model(place.path(), &format!("m{seed}"), seed, &words));
        config.augment.teachers = folders.iter().map(|path| path.display().to_string()).collect();
        let config = recorded(&config, &corpus.vocabulary).unwrap();
        assert_eq!(config.augment.teachers_sha256.len(), 2);
        let compute = Compute::with_threads(2);
        let streams = setup::streams(&config, &corpus.train.ids, 1);
        let vocab = corpus.vocabulary.len();
        let go = || false;
        let mut all = Vec::new();
        let mut teachers = Teachers::new(&config, &corpus, &compute).unwrap().unwrap();
        for index in 0..streams.windows() {
            let mut window = Window::default();
            streams.read_ahead(index, &mut window, &mut Ahead::default()).unwrap();
            let mut out = vec![f32::NAN; window.targets.len() * vocab];
            assert!(teachers.fill(&streams, (1, index), &mut out, &go).unwrap());
            all.push(out);
        }
        // The first stream, from its beginning, by each of the models alone.
        let length = streams.predictions() / config.batch;
        let mut expected = vec![0.0; length * vocab];
        for folder in &folders {
            let model = LoadedModel::load(folder).unwrap();
            let params = model.params().unwrap();
            let mut evaluator = Evaluator::new(params.spec(), compute.clone(), 1);
            evaluator.distributions(params, &corpus.train_ids().unwrap()[..=length], &mut |at, y| {
                expected[(at - 1) * vocab..at * vocab].iter_mut().zip(y).for_each(|(sum, y)| *sum += y / 2.0);
            });
        }
        let first: Vec<f32> =
            all.iter().flat_map(|out| out.chunks(3 * vocab).flat_map(|row| &row[..vocab])).copied().collect();
        assert_eq!(first.len(), expected.len());
        for (found, expected) in first.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
        // Who comes in the middle, or goes back, reads the beginning again, to the same bits.
        let mut again = Teachers::new(&config, &corpus, &compute).unwrap().unwrap();
        let mut out = vec![f32::NAN; all[5].len()];
        for index in [5, 3, 5] {
            assert!(again.fill(&streams, (1, index), &mut out, &go).unwrap());
            assert_eq!(out, all[index]);
        }
        assert!(!again.fill(&streams, (1, 2), &mut out, &|| true).unwrap());
    }

    #[test]
    fn a_teacher_that_does_not_fit_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let (corpus, config) = corpus(place.path());
        let words = corpus.vocabulary.to_text();
        let refused = |teachers: &[&Path], hash: Option<&str>| {
            let mut config = config.clone();
            config.augment.teachers = teachers.iter().map(|path| path.display().to_string()).collect();
            config.augment.teachers_sha256 = hash.iter().map(|hash| (*hash).to_owned()).collect();
            load(&config, &corpus.vocabulary).map(|_| ()).unwrap_err().to_string()
        };
        assert!(
            refused(&[], None).starts_with("setting `augment.teachers`: the target is a teacher's, and there is none")
        );
        let missing = refused(&[&place.path().join("nowhere")], None);
        assert!(missing.contains("there is no such folder"), "{missing}");
        let few = model(place.path(), "few", 1, "<eos>\n<unk>\na\n");
        assert!(refused(&[&few], None).contains("this teacher knows 3 words, and the text has"));
        let other = model(place.path(), "other", 1, &words.replace("b\n", "x\n"));
        assert!(refused(&[&other], None).contains("knows the word `x`, which the text does not have"));
        let fits = model(place.path(), "fits", 1, &words);
        assert!(refused(&[&fits], Some("0")).contains("weights have changed since the run began"));
    }
}
