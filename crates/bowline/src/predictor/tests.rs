//! What must hold for every predictor, on the built-in corpus.

use super::body::{Ask, Body};
use super::dynamic::Dynamic;
use super::*;
use crate::compute::Compute;
use crate::corpus::Split;
use crate::corpus::{Corpus, CorpusOptions};
use crate::eval::Evaluator;
use crate::model::{Dropout, KeepProb, Site, Sites};
use crate::params::Params;
use crate::rng::{Purpose, Stream, unit};
use crate::spec::ModelSpec;
use bowline_demo as demo;
use bowline_kernels::{Isa, Team};
use std::sync::{Arc, OnceLock};

const HIDDEN: usize = 24;

/// The corpus, once for all tests.
fn corpus() -> &'static Corpus {
    static CORPUS: OnceLock<Corpus> = OnceLock::new();
    CORPUS.get_or_init(|| {
        let splits = demo::splits(demo::DEFAULT_SEED);
        Corpus::from_texts(&splits.train, &splits.valid, &splits.test, CorpusOptions::default()).unwrap()
    })
}

fn text(n: usize) -> Vec<u32> {
    let Split { ids, .. } = &corpus().test;
    ids[..n].to_vec()
}

fn params(seed: u64, tied: bool) -> Params {
    let vocab = corpus().vocabulary.len();
    let mut params = Params::zeros(&ModelSpec::paper(vocab, HIDDEN, 2, tied));
    Stream::new(seed, Purpose::Weights, 0).fill(params.data_mut(), |r| 1.6 * (unit(r) - 0.5));
    params
}

fn source(threads: usize, tied: bool) -> Source {
    let (params, team, isa) = (params(1, tied), Arc::new(Team::new(threads)), Isa::detect());
    let ids = corpus().train_ids().unwrap()[..2000].to_vec().into();
    let scale = GradientScale::compute(&params, &ids, Arc::clone(&team), isa, &mut |_| true).unwrap();
    Source { params: Arc::new(params), team, isa, scale: scale.map(Arc::new) }
}

fn cache() -> CacheSettings {
    CacheSettings { window: 60, theta: 0.7, lambda: 0.3 }
}

fn dynamic(form: DynamicForm) -> DynamicSettings {
    let rate = if form == DynamicForm::Rms { 0.01 } else { 0.05 };
    DynamicSettings { form, segment: 7, rate, decay: 0.02, epsilon: 0.1 }
}

fn monte_carlo(keep: f32) -> MonteCarloSettings {
    MonteCarloSettings { samples: 6, keep: KeepProb(keep), seed: 3, masks: Dropout::default() }
}

/// With a mask for each gate at the sites that `f` makes drop something.
fn by_site(f: &dyn Fn(&mut Dropout)) -> MonteCarloSettings {
    let mut masks = Dropout { per_gate: vec![Site::Input, Site::State, Site::Between].into(), ..Dropout::default() };
    f(&mut masks);
    MonteCarloSettings { masks, ..monte_carlo(1.0) }
}

/// All ways of predicting.
fn all_settings() -> Vec<NeuralSettings> {
    let plain = NeuralSettings::default();
    vec![
        plain,
        NeuralSettings { temperature: 1.4, ..plain },
        NeuralSettings { cache: Some(cache()), ..plain },
        NeuralSettings { dynamic: Some(dynamic(DynamicForm::Sgd)), temperature: 0.8, ..plain },
        NeuralSettings { dynamic: Some(dynamic(DynamicForm::Rms)), ..plain },
        NeuralSettings { dynamic: Some(dynamic(DynamicForm::Rms)), cache: Some(cache()), ..plain },
        NeuralSettings { monte_carlo: Some(monte_carlo(0.7)), ..plain },
        NeuralSettings { monte_carlo: Some(by_site(&|masks| masks.state = KeepProb(0.6))), ..plain },
    ]
}

/// Those of one network, and mixtures of some.
fn all_predictors(threads: usize, tied: bool) -> Vec<Box<dyn Predictor>> {
    let source = source(threads, tied);
    let one = |settings: &NeuralSettings| Box::new(Neural::new(&source, settings).unwrap()) as Box<dyn Predictor>;
    let settings = all_settings();
    let mut all: Vec<_> = settings.iter().map(one).collect();
    for mix in [Mix::Linear, Mix::Log] {
        let members = vec![one(&settings[0]), one(&settings[5]), one(&settings[6])];
        all.push(Box::new(Mixture::new(members, vec![0.5, 0.3, 0.2], mix).unwrap()));
    }
    all
}

fn run(predictor: &mut dyn Predictor, ids: &[u32]) -> Vec<f64> {
    predictor.reset();
    predictor.target_probabilities(ids, &|| false).unwrap()
}

#[test]
fn both_faces_agree_and_every_distribution_adds_up_to_one() {
    let ids = text(90);
    for tied in [true, false] {
        for (i, predictor) in all_predictors(2, tied).iter_mut().enumerate() {
            let fast = run(predictor.as_mut(), &ids);
            assert_eq!(fast.len(), ids.len() - 1);
            let mut y = vec![0.0; predictor.vocab()];
            predictor.reset();
            for t in 0..ids.len() - 1 {
                predictor.observe(&ids[t..=t]);
                predictor.distribution(&mut y);
                let sum: f64 = y.iter().map(|&p| f64::from(p)).sum();
                assert!((sum - 1.0).abs() < 2e-6, "predictor {i}, word {t}: the sum is {sum}");
                let slow = f64::from(y[ids[t + 1] as usize]);
                assert!((slow / fast[t] - 1.0).abs() < 2e-5, "predictor {i}, word {t}: {slow} {}", fast[t]);
            }
            // Words read many at a time leave the same predictor behind.
            predictor.reset();
            predictor.observe(&ids[..40]);
            predictor.observe(&ids[40..89]);
            let mut again = vec![0.0; predictor.vocab()];
            predictor.distribution(&mut again);
            let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * a.max(1e-3);
            assert!(y.iter().zip(&again).all(close), "predictor {i}");
        }
    }
}

#[test]
fn the_future_does_not_matter() {
    let ids = text(310);
    let cut = 150;
    let mut other = ids.clone();
    other[cut..].reverse();
    assert_ne!(ids, other);
    for (i, predictor) in all_predictors(1, true).iter_mut().enumerate().take(8) {
        let (a, b) = (run(predictor.as_mut(), &ids), run(predictor.as_mut(), &other));
        // The probability of word t stands at t - 1.
        assert_eq!(a[..cut - 1], b[..cut - 1], "predictor {i}");
        assert_ne!(a[cut..], b[cut..], "predictor {i}");
    }
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let ids = text(220);
    let all = |threads| -> Vec<Vec<f64>> {
        all_predictors(threads, false).iter_mut().map(|p| run(p.as_mut(), &ids)).collect()
    };
    let one = all(1);
    assert!(all(2) == one && all(3) == one);
}

#[test]
fn a_predictor_starts_anew_after_a_reset() {
    let ids = text(150);
    for predictor in &mut all_predictors(1, false) {
        let first = run(predictor.as_mut(), &ids);
        assert_eq!(run(predictor.as_mut(), &ids), first);
    }
}

#[test]
fn settings_that_change_nothing_give_the_static_evaluation() {
    let (source, ids) = (source(2, true), text(500));
    let mut evaluator = Evaluator::new(source.params.spec(), Compute::new(Arc::clone(&source.team), source.isa), 1);
    let expected: Vec<f64> = evaluator.nll(&source.params, &ids).iter().map(|x| (-x).exp()).collect();
    let plain = NeuralSettings::default();
    let probabilities = |settings: NeuralSettings| run(&mut Neural::new(&source, &settings).unwrap(), &ids);
    assert_eq!(probabilities(plain), expected);
    let nothing = CacheSettings { lambda: 0.0, ..cache() };
    assert_eq!(probabilities(NeuralSettings { cache: Some(nothing), ..plain }), expected);
    let resting = DynamicSettings { rate: 0.0, ..dynamic(DynamicForm::Rms) };
    assert_eq!(probabilities(NeuralSettings { dynamic: Some(resting), ..plain }), expected);
    for (p, q) in probabilities(NeuralSettings { monte_carlo: Some(monte_carlo(1.0)), ..plain }).iter().zip(&expected) {
        assert!((p / q - 1.0).abs() < 1e-12);
    }
    let dropped = probabilities(NeuralSettings { monte_carlo: Some(monte_carlo(0.5)), ..plain });
    assert!(dropped.iter().zip(&expected).any(|(p, q)| (p / q - 1.0).abs() > 0.1));
}

#[test]
fn samples_drop_units_at_the_sites_of_the_training() {
    let (source, ids) = (source(2, true), text(60));
    let probabilities = |settings: MonteCarloSettings| {
        let settings = NeuralSettings { monte_carlo: Some(settings), ..NeuralSettings::default() };
        Neural::new(&source, &settings).map(|mut predictor| run(&mut predictor, &ids))
    };
    let whole = probabilities(monte_carlo(1.0)).unwrap();
    let half = KeepProb(0.5);
    let sites: [&dyn Fn(&mut Dropout); 4] =
        [&|m| m.input = half, &|m| m.state = half, &|m| m.between = half, &|m| m.output = half];
    let mut found = vec![whole.clone()];
    for site in sites {
        found.push(probabilities(by_site(site)).unwrap());
        // What is shared by all gates is another mask, except where no gates are.
        let mut shared = by_site(site);
        shared.masks.per_gate = Sites::default();
        let shared = probabilities(shared).unwrap();
        assert_eq!(found.last() == Some(&shared), found.len() == 5);
    }
    for (i, j) in (0..found.len()).flat_map(|i| (0..i).map(move |j| (i, j))) {
        assert_ne!(found[i], found[j], "sites {i} and {j}");
    }
    // Drawn at every step in training, held here.
    let each_step = |masks: &mut Dropout| (masks.output, masks.each_step) = (half, vec![Site::Output].into());
    assert_eq!(probabilities(by_site(&each_step)).unwrap(), found[4]);
    // Words are not dropped; the recurrent matrices are of all samples.
    let words = probabilities(by_site(&|m| (m.word, m.input) = (half, half))).unwrap();
    assert_eq!(words, found[1]);
    let error = probabilities(by_site(&|m| m.weights = half)).unwrap_err().to_string();
    assert!(error.contains("weight drop") && error.contains("--mc-keep"), "{error}");
}

#[test]
fn dynamic_evaluation_moves_a_copy_and_puts_it_back_bit_for_bit() {
    let ids = text(100);
    for tied in [true, false] {
        let source = source(2, tied);
        let before = source.params.data().to_vec();
        let scale = source.scale.as_ref().map(|s| s.r.clone());
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        for settings in [dynamic(DynamicForm::Rms), dynamic(DynamicForm::Sgd)] {
            let scale = scale.clone().filter(|_| settings.form == DynamicForm::Rms);
            let mut body = Dynamic::new(&source.params, scale, Arc::clone(&source.team), source.isa, settings);
            let mut nll = vec![0.0; 98];
            body.read(&ids[..98], Some(Ask { targets: &ids[1..99], temperatures: &[1.0], nll: &mut nll }));
            assert_ne!(body.weights().data(), &before[..]);
            body.reset();
            assert_eq!(bits(body.weights().data()), bits(&before));
        }
        assert_eq!(bits(source.params.data()), bits(&before));
        // The machinery itself at a rate of 0: the weights rest, and the losses are the static ones.
        let resting = DynamicSettings { rate: 0.0, ..dynamic(DynamicForm::Rms) };
        let mut body = Dynamic::new(&source.params, scale, Arc::clone(&source.team), source.isa, resting);
        let mut nll = vec![0.0; 98];
        body.read(&ids[..98], Some(Ask { targets: &ids[1..99], temperatures: &[1.0], nll: &mut nll }));
        assert_eq!(bits(body.weights().data()), bits(&before));
        let mut evaluator = Evaluator::new(source.params.spec(), Compute::new(Arc::clone(&source.team), source.isa), 1);
        for (a, b) in nll.iter().zip(evaluator.nll(&source.params, &ids)) {
            assert!((a - b).abs() < 1e-5 * b.max(1.0));
        }
    }
}

/// A step of dynamic evaluation is the rule applied to the gradient that training computes.
#[test]
fn a_segment_s_step_is_the_rule_along_the_training_gradient() {
    use crate::batch::Window;
    use crate::model::{Network, Pass, State, Use};
    use bowline_kernels::adapt::Scale;
    let ids = text(16);
    for tied in [true, false] {
        let source = source(1, tied);
        let trained = &source.params;
        let r = source.scale.as_ref().unwrap().r.clone();
        let mean = r.data().iter().map(|&x| f64::from(x)).sum::<f64>() / r.data().len() as f64;
        for form in [DynamicForm::Rms, DynamicForm::Sgd] {
            let settings = dynamic(form);
            let scale = (form == DynamicForm::Rms).then(|| r.clone());
            let mut body = Dynamic::new(trained, scale, Arc::clone(&source.team), source.isa, settings);
            // Two segments, the second of which starts from moved weights.
            let (mut theta, mut state) = (Params::clone(trained), State::zeros(trained.spec(), 1));
            let mut nll = vec![0.0; 14];
            body.read(&ids[..14], Some(Ask { targets: &ids[1..15], temperatures: &[1.0], nll: &mut nll }));
            let (mut network, mut gradient) = (
                Network::new(trained.spec(), Compute::new(Arc::clone(&source.team), source.isa), Use::Train, 7, 1),
                Params::zeros(trained.spec()),
            );
            for at in [0, 7] {
                let (inputs, targets) = (ids[at..at + 7].to_vec(), ids[at + 1..at + 8].to_vec());
                let window = Window { steps: 7, batch: 1, inputs, targets };
                network.pack(&theta, Use::Train);
                let loss = network.train(&theta, &window, &mut state, Pass::default(), &mut gradient);
                assert!((loss.ce - nll[at..at + 7].iter().sum::<f64>()).abs() < 1e-4);
                for i in 0..theta.data().len() {
                    // The scale goes by 8 bits.
                    let r = Scale::nearest(r.data()[i]).value();
                    let [x, x0, g, r] = [theta.data()[i], trained.data()[i], gradient.data()[i], r].map(f64::from);
                    let new = match form {
                        DynamicForm::Sgd => x + settings.decay * (x0 - x) - settings.rate * g,
                        DynamicForm::Rms => {
                            let back = (settings.decay * r / mean).min(1.0);
                            x + back * (x0 - x) - settings.rate * g / (r + settings.epsilon * mean)
                        }
                    };
                    theta.data_mut()[i] = new as f32;
                }
            }
            let worst = body.weights().data().iter().zip(theta.data()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            let path = theta.data().iter().zip(trained.data()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 1e-4 * path, "tied {tied}, {form:?}: {worst} of {path}");
        }
    }
}

#[test]
fn the_cache_is_the_naive_one() {
    let (source, ids) = (source(2, true), text(450));
    let plain = NeuralSettings::default();
    let network = run(&mut Neural::new(&source, &plain).unwrap(), &ids);
    // The states, one word at a time.
    let mut body = body::Static::new(Arc::clone(&source.params), Arc::clone(&source.team), source.isa);
    let mut states: Vec<Vec<f64>> = Vec::new();
    for word in &ids {
        body.read(&[*word], None);
        states.push(body.hidden().iter().map(|&x| f64::from(x)).collect());
    }
    for (window, theta) in [(60, 0.7), (1, 2.0), (1000, 0.1), (17, 30.0)] {
        let settings = CacheSettings { window, theta, lambda: 0.3 };
        let got = run(&mut Neural::new(&source, &NeuralSettings { cache: Some(settings), ..plain }).unwrap(), &ids);
        for t in 0..ids.len() - 1 {
            let score = |i: usize| theta * states[t].iter().zip(&states[i]).map(|(a, b)| a * b).sum::<f64>();
            let band = t.saturating_sub(window)..t;
            let max = band.clone().map(score).fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = band.clone().map(|i| (score(i) - max).exp()).sum();
            let hits = band.clone().filter(|&i| ids[i + 1] == ids[t + 1]);
            let matched: f64 = hits.map(|i| (score(i) - max).exp()).sum();
            let want = if t == 0 { network[t] } else { 0.7 * network[t] + 0.3 * matched / total };
            assert!((got[t] - want).abs() < 1e-4 * want, "window {window}, theta {theta}, word {t}: {} {want}", got[t]);
        }
    }
}

#[test]
fn one_pass_gives_what_single_settings_give() {
    let (source, ids) = (source(1, false), text(400));
    let plain = NeuralSettings::default();
    let widest = CacheSettings { window: 90, ..cache() };
    let mut predictor = Neural::new(&source, &NeuralSettings { cache: Some(widest), ..plain }).unwrap();
    let grid = CacheGrid { thetas: vec![0.2, 25.0], windows: vec![5, 40, 90] };
    let streams = predictor.streams(&ids, &[1.0, 1.3], &grid, &mut |_| true).unwrap();
    for (i, temperature) in [1.0, 1.3].into_iter().enumerate() {
        for (j, &theta) in grid.thetas.iter().enumerate() {
            for (k, &window) in grid.windows.iter().enumerate() {
                let settings =
                    NeuralSettings { temperature, cache: Some(CacheSettings { window, theta, lambda: 0.2 }), ..plain };
                let alone = run(&mut Neural::new(&source, &settings).unwrap(), &ids);
                let mixed = Streams::mixed(&streams.network[i], &streams.cache[j * 3 + k], 0.2);
                let close = |(a, b): (&f64, &f64)| (a / b - 1.0).abs() < 1e-4;
                assert!(
                    alone.iter().zip(&mixed).all(close),
                    "temperature {temperature}, theta {theta}, window {window}"
                );
            }
        }
    }
}

#[test]
fn a_log_mixture_s_weights_are_the_best_ones() {
    let ids = text(120);
    let team = Arc::new(Team::new(1));
    let member = |seed| {
        let mut weights = params(seed, true);
        weights.data_mut().iter_mut().for_each(|x| *x *= 0.4);
        let source = Source { params: Arc::new(weights), team: Arc::clone(&team), isa: Isa::detect(), scale: None };
        Box::new(Neural::new(&source, &NeuralSettings::default()).unwrap()) as Box<dyn Predictor>
    };
    let perplexity = |weights: Vec<f64>| {
        let mut mixture = Mixture::new(vec![member(1), member(2)], weights, Mix::Log).unwrap();
        let p = run(&mut mixture, &ids);
        (-p.iter().map(|p| p.ln()).sum::<f64>() / p.len() as f64).exp()
    };
    let mut mixture = Mixture::new(vec![member(1), member(2)], vec![0.5, 0.5], Mix::Log).unwrap();
    mixture.fit_log(&ids, &|| false).unwrap();
    let found = mixture.weights().to_vec();
    let best = perplexity(found.clone());
    for (i, step) in [(0, 0.05), (0, -0.05), (1, 0.05), (1, -0.05)] {
        let mut other = found.clone();
        other[i] = (other[i] + step).max(0.0);
        assert!(best <= perplexity(other) + 1e-9, "{found:?}");
    }
    assert!(best < perplexity(vec![0.5, 0.5]));
}

#[test]
fn impossible_mixtures_are_refused() {
    let source = source(1, true);
    let one = || Box::new(Neural::new(&source, &NeuralSettings::default()).unwrap()) as Box<dyn Predictor>;
    let message = |members: Vec<Box<dyn Predictor>>, weights: &[f64]| {
        Mixture::new(members, weights.to_vec(), Mix::Linear).err().unwrap().to_string()
    };
    assert!(message(vec![one(), one()], &[0.5]).starts_with("setting `weights`: there are 1 weights for 2 members"));
    assert!(message(vec![one(), one()], &[0.5, 0.6]).starts_with("setting `weights`: they add up to 1.1"));
    assert!(message(vec![one(), one()], &[1.5, -0.5]).starts_with("setting `weights`: -0.5 is impossible"));
    let small = Params::zeros(&ModelSpec::paper(5, 3, 1, true));
    let other = Source { params: Arc::new(small), ..source.clone() };
    let other = Box::new(Neural::new(&other, &NeuralSettings::default()).unwrap());
    assert!(message(vec![one(), other], &[0.5, 0.5]).contains("the models have different vocabularies"));
    let no_scale = Source { scale: None, ..source.clone() };
    let settings = NeuralSettings { dynamic: Some(dynamic(DynamicForm::Rms)), ..NeuralSettings::default() };
    let error = Neural::new(&no_scale, &settings).err().unwrap().to_string();
    assert!(error.starts_with("setting `dynamic-form`: the rms form needs the scale"), "{error}");
}

#[test]
fn the_gradients_scale_is_kept_beside_the_model() {
    let (source, folder) = (source(1, true), tempfile::tempdir().unwrap());
    let scale = source.scale.as_ref().unwrap();
    let mark = fingerprint(&source.params);
    scale.save(folder.path(), &mark, "text").unwrap();
    let again = GradientScale::load(folder.path(), &source.params, &mark, "text").unwrap();
    assert_eq!(again.r.data(), scale.r.data());
    assert!(scale.r.data().iter().all(|&r| r >= 0.0) && scale.r.data().iter().any(|&r| r > 0.0));
    assert!(GradientScale::load(folder.path(), &source.params, &mark, "another text").is_none());
    assert!(GradientScale::load(folder.path(), &source.params, "other weights", "text").is_none());
}
