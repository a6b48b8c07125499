//! How large each weight's gradient usually is on the training text: the scale of dynamic evaluation.
//!
//! `r = sqrt(mean g^2)`, weight by weight, over windows of the training text read in 20 streams that start at 20 places of
//! it. It depends on the model and on that text alone, so it is computed once and kept beside the model.

use crate::batch::{Ahead, Streams, Window};
use crate::compute::Compute;
use crate::corpus::Ids;
use crate::error::Result;
use crate::model::{Network, Pass, State, Use};
use crate::params::Params;
use crate::storage::tensor_file::{ContentHash, TensorFile, TensorFileWriter, sha256};
use bowline_kernels::{Isa, Team};
use std::path::Path;
use std::sync::Arc;

/// The name of the file beside the model's own.
const FILE: &str = "gradient-scale.safetensors";
const STREAMS: usize = 20;
const STEPS: usize = 20;
/// Windows that are looked at, at most.
const WINDOWS: usize = 150;

/// `r`, for one model.
#[derive(Clone, Debug)]
pub struct GradientScale {
    /// A value for each weight.
    pub r: Params,
}

/// What tells the weights of one model from those of another.
pub fn fingerprint(params: &Params) -> String {
    let bytes: Vec<u8> = params.data().iter().flat_map(|x| x.to_le_bytes()).collect();
    sha256(&bytes)
}

impl GradientScale {
    /// Looks at the training text. `watch` hears the share that is done, and stops it by saying false.
    pub fn compute(
        params: &Params,
        train: &Ids,
        team: Arc<Team>,
        isa: Isa,
        watch: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Option<GradientScale>> {
        let spec = params.spec();
        // A short text has fewer streams, so that each has a few windows.
        let streams = STREAMS.min(train.len() / (4 * STEPS)).max(1);
        let text = Streams::of(train, streams, STEPS);
        let mut network = Network::new(spec, Compute::new(team, isa), Use::Train, STEPS, streams);
        network.pack(params, Use::Train);
        let mut state = State::zeros(spec, streams);
        let (mut gradient, mut r) = (Params::zeros(spec), Params::zeros(spec));
        let (mut window, mut ahead) = (Window::default(), Ahead::default());
        let windows = text.windows().min(WINDOWS);
        for i in 0..windows {
            if !watch(i as f64 / windows as f64) {
                return Ok(None);
            }
            text.read_ahead(i, &mut window, &mut ahead)?;
            network.train(params, &window, &mut state, Pass::default(), &mut gradient);
            r.data_mut().iter_mut().zip(gradient.data()).for_each(|(sum, g)| *sum += g * g);
        }
        let n = windows.max(1) as f32;
        r.data_mut().iter_mut().for_each(|sum| *sum = (*sum / n).sqrt());
        Ok(Some(GradientScale { r }))
    }

    /// Writes it into the model's folder.
    pub fn save(&self, folder: &Path, fingerprint: &str, train_sha256: &str) -> Result<()> {
        let mut file = TensorFileWriter::new();
        file.metadata("weights_sha256", fingerprint).metadata("train_sha256", train_sha256);
        file.metadata("windows", WINDOWS).metadata("streams", STREAMS).metadata("steps", STEPS);
        for tensor in self.r.tensors() {
            file.tensor(tensor.name.clone(), &tensor.shape, self.r.get(tensor));
        }
        file.save(folder.join(FILE)).map(|_| ())
    }

    /// The one in the model's folder, if it is there and belongs to these weights and this text. What is damaged or of
    /// another model counts as missing: it can be computed again.
    pub fn load(folder: &Path, params: &Params, fingerprint: &str, train_sha256: &str) -> Option<GradientScale> {
        GradientScale::read(folder, params, fingerprint, Some(train_sha256))
    }

    /// The one in the model's folder, if it belongs to these weights, whatever the text.
    pub fn load_any(folder: &Path, params: &Params, fingerprint: &str) -> Option<GradientScale> {
        GradientScale::read(folder, params, fingerprint, None)
    }

    fn read(folder: &Path, params: &Params, fingerprint: &str, train: Option<&str>) -> Option<GradientScale> {
        let file = TensorFile::read(folder.join(FILE), ContentHash::Required).ok()?;
        let is = |key: &str, value: &str| file.metadata().get(key).is_some_and(|found| found == value);
        let same_text = train.is_none_or(|train| is("train_sha256", train));
        if !is("weights_sha256", fingerprint) || !same_text || !is("windows", &WINDOWS.to_string()) {
            return None;
        }
        let mut r = Params::zeros(params.spec());
        let tensors = r.tensors().to_vec();
        file.expect_exactly(tensors.iter().map(|t| (t.name.as_str(), t.shape.as_slice()))).ok()?;
        for tensor in &tensors {
            file.copy_to(&tensor.name, &mut r.data_mut()[tensor.range()]).ok()?;
        }
        Some(GradientScale { r })
    }
}
