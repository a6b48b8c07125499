//! The output projection: `p = f(P h + b)`, narrower (or wider) than the last layer, which is what the classifier then sees.

use super::ByColumns;
use super::layer::{Backward, Met, Shape, times};
use crate::compute::Compute;
use crate::layout::ProjectionTensors;
use crate::params::Params;
use crate::spec::{Activation, ModelSpec, ProjectionSpec};
use bowline_kernels::{Buffer, Into, Mat, PackedB, elementwise, gemm};

/// The buffers and packed weights of a projection, allocated once.
pub(super) struct Projection {
    compute: Compute,
    spec: ProjectionSpec,
    /// Width of what it reads.
    inputs: usize,
    tensors: ProjectionTensors,
    /// `P^T`, (d, p).
    weights: PackedB,
    /// (T, B, p): before the mask.
    values: Buffer,
    /// (T, B, p): after it.
    masked: Buffer,
    /// Whether there was one in the window that was read last.
    is_masked: bool,
}

impl Projection {
    /// Room for `rows` vectors; none if the model has no projection.
    pub(super) fn new(spec: &ModelSpec, compute: &Compute, rows: usize) -> Option<Projection> {
        let (projection, tensors) = (spec.output.projection.clone()?, spec.layout().projection?);
        let projection = ProjectionSpec { width: spec.projected(), ..projection };
        Some(Projection::with(projection, tensors, spec.inputs(spec.layers.len()), compute, rows))
    }

    /// Another function of this kind, of vectors of `inputs` values.
    pub(super) fn with(
        spec: ProjectionSpec,
        tensors: ProjectionTensors,
        inputs: usize,
        compute: &Compute,
        rows: usize,
    ) -> Projection {
        Projection {
            compute: compute.clone(),
            inputs,
            tensors,
            weights: PackedB::new(compute.isa, compute.precision),
            values: Buffer::zeros(rows * spec.width),
            masked: Buffer::new(),
            is_masked: false,
            spec,
        }
    }

    /// Takes new weights.
    pub(super) fn pack(&mut self, params: &Params) {
        let weights = Mat::new(params.of(self.tensors.weight), self.spec.width, self.inputs);
        self.weights.pack(&self.compute.team, weights.t());
    }

    /// From `h`, (T, B, d), to [`Projection::output`], with a mask as a layer's output has.
    pub(super) fn forward(&mut self, params: &Params, h: &[f32], mask: Option<&[f32]>, (steps, batch): Shape) {
        let (rows, width) = (steps * batch, self.spec.width);
        let values = &mut self.values[..rows * width];
        self.tensors.fill_with_bias(params, width, values);
        gemm(&self.compute.team, Mat::new(h, rows, self.inputs), &self.weights, values, Into::Accumulate);
        activate(self.spec.activation, values);
        self.is_masked = mask.is_some();
        if let Some(mask) = mask {
            self.masked.grow(rows * width);
            self.masked[..rows * width].copy_from_slice(values);
            times(&self.compute, &mut self.masked[..rows * width], mask, batch * width);
        }
    }

    /// The projection of a few vectors, (rows, d), with the weights as they lie.
    pub(super) fn of(&self, params: &Params, h: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; h.len() / self.inputs * self.spec.width];
        self.tensors.fill_with_bias(params, self.spec.width, &mut out);
        let rows = params.of(self.tensors.weight).chunks_exact(self.inputs);
        for (out, h) in out.chunks_exact_mut(self.spec.width).zip(h.chunks_exact(self.inputs)) {
            for (out, row) in out.iter_mut().zip(rows.clone()) {
                *out += row.iter().zip(h).map(|(w, h)| w * h).sum::<f32>();
            }
        }
        activate(self.spec.activation, &mut out);
        out
    }

    /// What the classifier sees of every step, (T, B, p).
    pub(super) fn output(&self, (steps, batch): Shape) -> &[f32] {
        let len = steps * batch * self.spec.width;
        if self.is_masked { &self.masked[..len] } else { &self.values[..len] }
    }

    /// From `d_output`, which is used up, to the gradient of the weights and of `h` (`d_h`).
    pub(super) fn backward(&self, pass: Backward<'_>, gradient: &mut Params, d_h: &mut [f32], scratch: &mut PackedB) {
        let Backward { params, x: h, masks, shape: (steps, batch), d_output } = pass;
        let (rows, width, team) = (steps * batch, self.spec.width, &*self.compute.team);
        if let Some(mask) = masks.output {
            times(&self.compute, d_output, mask, batch * width);
        }
        through_activation(self.spec.activation, &self.values[..rows * width], d_output);
        let d = Mat::new(d_output, rows, width);
        scratch.pack(team, Mat::new(h, rows, self.inputs));
        gemm(team, d.t(), scratch, gradient.of_mut(self.tensors.weight), Into::Overwrite);
        if let Some(bias) = self.tensors.bias {
            elementwise::column_sums(team, self.compute.isa, d_output, gradient.of_mut(bias));
        }
        scratch.pack(team, Mat::new(params.of(self.tensors.weight), width, self.inputs));
        gemm(team, d, scratch, d_h, Into::Overwrite);
    }
}

impl Projection {
    /// [`Projection::backward`] as far as the products, as [`super::layer::Layer::backward_unpacked`] does it.
    pub(super) fn backward_unpacked(
        &self,
        h: &[f32],
        d_output: &mut [f32],
        room: &mut ByColumns,
        each: &mut dyn FnMut(Met<'_>),
    ) {
        through_activation(self.spec.activation, &self.values[..d_output.len()], d_output);
        let stride = room.states.stride();
        let d_rows = room.columns_of(d_output, self.spec.width);
        each(Met { tensor: self.tensors.weight, d_rows, stride, with: Some((h, self.inputs)), below: true });
        if let Some(tensor) = self.tensors.bias {
            each(Met { tensor, d_rows, stride, with: None, below: false });
        }
    }
}

impl ProjectionTensors {
    fn fill_with_bias(&self, params: &Params, width: usize, out: &mut [f32]) {
        match self.bias {
            Some(bias) => out.chunks_exact_mut(width).for_each(|row| row.copy_from_slice(params.of(bias))),
            None => out.fill(0.0),
        }
    }
}

fn activate(activation: Activation, x: &mut [f32]) {
    match activation {
        Activation::Linear => {}
        Activation::Tanh => x.iter_mut().for_each(|x| *x = x.tanh()),
        Activation::Sigmoid => x.iter_mut().for_each(|x| *x = 1.0 / (1.0 + (-*x).exp())),
        Activation::Relu => x.iter_mut().for_each(|x| *x = x.max(0.0)),
    }
}

/// `d *= f'`, where `y` is the value of `f`.
fn through_activation(activation: Activation, y: &[f32], d: &mut [f32]) {
    let slope: fn(f32) -> f32 = match activation {
        Activation::Linear => return,
        Activation::Tanh => |y| 1.0 - y * y,
        Activation::Sigmoid => |y| y * (1.0 - y),
        Activation::Relu => |y| if y > 0.0 { 1.0 } else { 0.0 },
    };
    d.iter_mut().zip(y).for_each(|(d, &y)| *d *= slope(y));
}
