//! Which settings fit together: every value is checked once, before anything is read or written.

use super::{Config, Form, TargetSource, Training, UnitName, VERSION};
use crate::error::{Error, Result};
use crate::model::{Activity, Site, Sites};
use crate::optim::OptimizerKind;
use bowline_kernels::Isa;

impl Config {
    /// Checks every value; the error names the first impossible one.
    pub fn validate(&self) -> Result<()> {
        let check = |key: &str, possible: bool, found: &dyn std::fmt::Display, range: &str| {
            if possible {
                return Ok(());
            }
            Err(Error::config(key, format!("{found} is impossible"), format!("a value {range}")))
        };
        let (f, positive) = (|x: f64| x.is_finite(), "above 0");
        check(
            "version",
            (1..=VERSION).contains(&self.version),
            &self.version,
            &format!("from 1 to {VERSION}, or another version of bowline"),
        )?;
        check("hidden", (1..=65_536).contains(&self.hidden), &self.hidden, "from 1 to 65536")?;
        // Only a network that reads several words at a time can do without a layer.
        let least = usize::from(self.network.context == 0);
        check("layers", (least..=64).contains(&self.layers), &self.layers, &format!("from {least} to 64"))?;
        check("init", self.init.is_finite() && self.init > 0.0, &self.init, positive)?;
        let of_classifier = self.classifier_init;
        check("classifier_init", of_classifier.is_finite() && of_classifier >= 0.0, &of_classifier, "of at least 0")?;
        check("keep", self.keep.0 > 0.0 && self.keep.0 <= 1.0, &self.keep.0, "above 0, up to 1 (1 drops nothing)")?;
        check("batch", (1..=65_536).contains(&self.batch), &self.batch, "from 1 to 65536")?;
        self.validate_shards()?;
        check("unroll", (1..=65_536).contains(&self.unroll), &self.unroll, "from 1 to 65536")?;
        check("epochs", self.epochs >= 1, &self.epochs, "of at least 1")?;
        check("learning_rate", f(self.learning_rate) && self.learning_rate > 0.0, &self.learning_rate, positive)?;
        check("decay", self.decay > 0.0 && self.decay <= 1.0, &self.decay, "above 0, up to 1 (1 never decays)")?;
        check("clip", f(self.clip) && self.clip > 0.0, &self.clip, positive)?;
        let (decay, most) = (self.weight_decay, 1.0 / self.learning_rate);
        check(
            "weight_decay",
            (0.0..most).contains(&decay),
            &decay,
            &format!("from 0 to below {most} (1 / learning_rate)"),
        )?;
        let share = self.average;
        check("average", (0.0..1.0).contains(&share), &share, "from 0 (no mean) to below 1")?;
        self.validate_topics()?;
        self.validate_network()?;
        self.validate_training()?;
        let streams = self.validation_streams;
        check("validation_streams", (1..=65_536).contains(&streams), &streams, "from 1 to 65536")?;
        let (tau, gamma) = (self.augment.tau, self.augment.gamma);
        check("augment.tau", tau.is_finite() && tau > 0.0, &tau, positive)?;
        check("augment.gamma", gamma.is_finite() && gamma >= 0.0, &gamma, "of at least 0")?;
        if self.augment.form == Form::Gram && self.augmented() && !self.tied() {
            let advice = "`augment.form=exact`, or `--model real`, whose classifier reuses the embedding";
            return Err(Error::config("augment.form", "the second-order form is for tied models", advice));
        }
        if self.augmented() && self.augment.begin == Training::Second && self.second_training_epochs == 0 {
            let advice = "`second_training_epochs=N`, or `augment.begin=first`";
            return Err(Error::config("augment.begin", "there is no second training to begin with", advice));
        }
        let beta = self.augment.beta;
        check("augment.beta", (0.0..=1.0).contains(&beta), &beta, "from 0 to 1")?;
        if self.augment.target == TargetSource::Truth {
            if self.data.source != "demo" {
                let problem = format!("the true distribution of `{}` is not known", self.data.source);
                return Err(Error::config("augment.target", problem, "`augment.target=embedding`, or `--data demo`"));
            }
            if self.data.train_start > 0 {
                let problem = "the true distribution is known from the beginning of the text on";
                return Err(Error::config("data.train_start", problem, "`data.train_start=0`"));
            }
        }
        if self.augment.target != TargetSource::Embedding && self.augment.form == Form::Gram {
            let problem = "the second-order form is of the embedding's estimate";
            return Err(Error::config("augment.form", problem, "`augment.form=exact`"));
        }
        if self.augment.target != TargetSource::Teacher && !self.augment.teachers.is_empty() {
            let problem = "there are teachers, and the target is not theirs";
            return Err(Error::config("augment.target", problem, "`--set augment.target=teacher`, or no `--teacher`"));
        }
        let every = self.checkpoint.every_seconds;
        check("checkpoint.every_seconds", f(every) && every >= 0.0, &every, "of at least 0")?;
        let seconds = self.finish.seconds;
        check("finish.seconds", f(seconds) && seconds >= 0.0, &seconds, "of at least 0")?;
        let words = self.data.vocab_size;
        check("data.vocab_size", words == 0 || words >= 3, &words, "of at least 3, or 0 to keep all words")
    }

    fn validate_shards(&self) -> Result<()> {
        let (shards, batch) = (self.shards, self.batch);
        if shards == 0 || !batch.is_multiple_of(shards) {
            let problem = format!("{batch} streams (setting `batch`) cannot be divided into {shards} equal shards");
            let divisors: Vec<String> =
                (1..=batch).filter(|n| batch.is_multiple_of(*n)).map(|n| n.to_string()).collect();
            return Err(Error::config(
                "shards",
                problem,
                format!("one of {}, or another `batch`", divisors.join(", ")),
            ));
        }
        if shards > 1 && self.augmented() && self.augment.target != TargetSource::Embedding {
            let problem = "targets that the truth or a teacher gives are for whole batches";
            return Err(Error::config("shards", problem, "`shards=1`, or `augment.target=embedding`"));
        }
        Ok(())
    }

    fn validate_network(&self) -> Result<()> {
        let network = &self.network;
        if self.model.paper_tied().is_some() && (network.tied || network.bias) {
            let problem = format!("the name `{}` says already whether the classifier is tied", self.model.name());
            return Err(Error::config("network.tied", problem, "`--model re` for tied, `--model vd-lstm` for untied"));
        }
        // Any number of words will do to see whether there can be such a network, if each class has one.
        let spec = self.spec(self.network.classes.clamp(3, 1 << 20));
        spec.check().map_err(|problem| {
            let advice =
                "other values of `hidden`, `layers`, `network.widths`, `network.embedding`, `network.projection`";
            Error::config("network", problem, advice)
        })?;
        if spec.features() > 0 && self.masks.per_gate.contains(Site::Input) {
            let problem = "topics come in beside the word vectors without a mask, and a mask by gate is on all inputs";
            return Err(Error::config("masks.per_gate", problem, "a list without `input`"));
        }
        if self.network.direct && self.masks.per_gate.contains(Site::Input) {
            let problem = "direct inputs have values of their own for each gate, and so masks";
            return Err(Error::config("masks.per_gate", problem, "a list without `input`"));
        }
        if network.unit == UnitName::Mogrifier && self.masks.per_gate != Sites::default() {
            let problem =
                "the input and the state of a Mogrifier gate each other before they are consumed, once for all gates";
            return Err(Error::config("masks.per_gate", problem, "an empty list"));
        }
        if network.sum_layers && self.activity() != Activity::default() {
            let problem = "the activity that costs is the last layer's, and the classifier sees the sum of all";
            return Err(Error::config(
                "network.sum_layers",
                problem,
                "false, or `activity.ar` and `activity.tar` of 0",
            ));
        }
        if spec.input.characters.is_some() && self.augmented() && self.augment.target == TargetSource::Embedding {
            let problem = "the augmented loss compares word vectors, and these come from characters";
            return Err(Error::config("network.characters.maps", problem, "[], or a model without the augmented loss"));
        }
        if spec.input.characters.is_some() && self.unit_vectors {
            let problem = "word vectors that come from characters cannot be scaled to length 1";
            return Err(Error::config("unit_vectors", problem, "`unit_vectors=false`"));
        }
        let masks_inputs = [self.keep, self.masks.input, self.masks.word].iter().any(|keep| keep.0 < 1.0);
        if spec.input.context.is_some() && masks_inputs {
            let problem = "words that are read side by side have no masks";
            return Err(Error::config("network.context", problem, "0, or `keep`, `masks.input` and `masks.word` at 1"));
        }
        if (spec.input.context.is_some() || spec.output.sum_product.is_some()) && self.augmented() {
            let problem = "the augmented loss is for a softmax over what a network remembers";
            return Err(Error::config("network.context", problem, "0, or a model without the augmented loss"));
        }
        if spec.output.pointer.is_some() && self.augmented() {
            let problem = "the augmented loss is for a classifier that predicts alone, not for one beside a pointer";
            return Err(Error::config("network.pointer", problem, "0, or a model without the augmented loss"));
        }
        if spec.output.classes.is_some() && self.augmented() {
            let problem = "the augmented loss is for one softmax, not for classes of words";
            return Err(Error::config("network.classes", problem, "0, or a model without the augmented loss"));
        }
        if spec.output.mixture.is_some() && self.augmented() {
            let problem = "the augmented loss is for one softmax, not for a mixture of them";
            return Err(Error::config("network.softmaxes", problem, "1, or a model without the augmented loss"));
        }
        let estimated = self.augmented() && self.augment.target == TargetSource::Embedding;
        if estimated && spec.input.width != spec.width() {
            let problem =
                "the augmented loss compares what the classifier sees with word vectors, of another size here";
            let advice = format!("`network.embedding={}`, or a model without it", spec.width());
            return Err(Error::config("network.embedding", problem, advice));
        }
        Ok(())
    }

    fn validate_training(&self) -> Result<()> {
        let check = |key: &str, possible: bool, found: &dyn std::fmt::Display, range: &str| {
            if possible {
                return Ok(());
            }
            Err(Error::config(key, format!("{found} is impossible"), format!("a value {range}")))
        };
        for (site, keep) in self.masks.sites() {
            let possible = keep.0 > 0.0 && keep.0 <= 1.0;
            check(&format!("masks.{site}"), possible, &keep.0, "above 0, up to 1 (1 drops nothing)")?;
        }
        if let Some(site) = self.masks.without_gates().next() {
            let problem =
                format!("what is masked at `{}` is not consumed by gates", format!("{site:?}").to_lowercase());
            return Err(Error::config("masks.per_gate", problem, "only `input`, `state` and `between`"));
        }
        if self.keep.0 < 1.0 && !self.masks.is_off() {
            let problem = "there are masks by site (`masks.*`) and the paper's (`keep`)";
            return Err(Error::config("keep", problem, "`keep=1`, or all of `masks.*` at 1"));
        }
        let optimizer = &self.optimizer;
        check("optimizer.beta1", (0.0..1.0).contains(&optimizer.beta1), &optimizer.beta1, "from 0 to below 1")?;
        check("optimizer.beta2", (0.0..1.0).contains(&optimizer.beta2), &optimizer.beta2, "from 0 to below 1")?;
        let epsilon = optimizer.epsilon;
        check("optimizer.epsilon", epsilon > 0.0 && epsilon.is_finite(), &epsilon, "above 0")?;
        if optimizer.kind == OptimizerKind::Asgd && self.average > 0.0 {
            let problem = "asgd has a mean of its own";
            return Err(Error::config("average", problem, "`average=0`, or `optimizer.kind=sgd`"));
        }
        let schedule = &self.schedule;
        check("schedule.constant", (0.0..1.0).contains(&schedule.constant), &schedule.constant, "from 0 to below 1")?;
        check(
            "schedule.factor",
            schedule.factor > 0.0 && schedule.factor <= 1.0,
            &schedule.factor,
            "above 0, up to 1",
        )?;
        let gain = schedule.gain;
        check("schedule.gain", gain >= 0.0 && gain.is_finite(), &gain, "of at least 0")?;
        check("schedule.patience", schedule.patience >= 1, &schedule.patience, "of at least 1")?;
        let reset = self.streams.reset;
        check("streams.reset", (0.0..=1.0).contains(&reset), &reset, "from 0 to 1")?;
        if self.streams.random_length && self.augment.target == TargetSource::Truth {
            let problem = "the true distribution is laid beside windows of one length";
            return Err(Error::config("streams.random_length", problem, "`streams.random_length=false`"));
        }
        self.validate_sampled()?;
        for (key, weight) in [("activity.ar", self.activity.ar), ("activity.tar", self.activity.tar)] {
            check(key, weight >= 0.0 && weight.is_finite(), &weight, "of at least 0")?;
        }
        Ok(())
    }

    /// What needs the probabilities of all words, or the gradient of each shard, cannot have a sample.
    fn validate_sampled(&self) -> Result<()> {
        let (what, advice) = match () {
            () if self.loss.sampled == 0 => return Ok(()),
            () if self.augmented() => ("the augmented loss", "`--model re` or `--model vd-lstm`"),
            () if self.network.pointer > 0 => ("a pointer", "`network.pointer=0`"),
            () if self.spec(2).output.mixture.is_some() => ("a mixture of softmaxes", "one softmax"),
            () if self.network.sum_product > 0 => ("a sum-product network", "`network.sum_product=0`"),
            () if self.network.classes > 0 => ("a network with classes", "`network.classes=0`"),
            () if self.spec(2).input.characters.is_some() => {
                ("a network that reads characters", "one with word vectors")
            }
            () if self.shards > 1 => ("a batch in shards", "`shards=1`"),
            () => return Ok(()),
        };
        let problem = format!("{what} cannot be learned from a sample of the words");
        Err(Error::config("loss.sampled", problem, format!("{advice}, or `loss.sampled=0`")))
    }

    /// Whether this CPU can do what the settings ask for; they may come from another one.
    pub fn check_cpu(&self, isa: Isa) -> Result<()> {
        if bowline_kernels::Precision::from(self.precision).available(isa) {
            return Ok(());
        }
        let advice = "`precision=f32`, or `precision=bf16-emulated`, which rounds in the same way on any CPU but is \
                      slower than f32";
        Err(Error::config("precision", "this CPU has no instruction for bf16 (avx512_bf16)", advice))
    }
}
