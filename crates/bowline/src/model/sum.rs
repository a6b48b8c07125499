//! The sum of all layers' outputs, where the classifier sees that in the place of the last layer's: `m sum_l h_l`.
//!
//! The mask is the one that the last layer's output would have; the `h_l` in the sum have none of their own.

use super::layer::{Layer, Shape, times};
use crate::compute::Compute;
use crate::spec::ModelSpec;
use bowline_kernels::Buffer;

/// The sum's buffers.
pub(super) struct Sum {
    compute: Compute,
    units: usize,
    /// (T, B, d).
    values: Buffer,
    /// (T, B, d): the gradient by every layer's output.
    gradient: Buffer,
}

impl Sum {
    /// Room for `rows` words; none if the model has no such sum.
    pub(super) fn new(spec: &ModelSpec, compute: &Compute, rows: usize) -> Option<Sum> {
        let units = spec.inputs(spec.layers.len());
        spec.output.sum_layers.then(|| Sum {
            compute: compute.clone(),
            units,
            values: Buffer::zeros(rows * units),
            gradient: Buffer::new(),
        })
    }

    /// From what the layers gave to [`Sum::output`].
    pub(super) fn forward(&mut self, layers: &[Layer], mask: Option<&[f32]>, shape: Shape) {
        let (rows, step) = (shape.0 * shape.1 * self.units, shape.1 * self.units);
        let values = &mut self.values[..rows];
        values.fill(0.0);
        for layer in layers {
            values.iter_mut().zip(layer.unmasked(shape)).for_each(|(sum, h)| *sum += h);
        }
        if let Some(mask) = mask {
            times(&self.compute, values, mask, step);
        }
    }

    /// What the projection or the classifier sees of every step, (T, B, d).
    pub(super) fn output(&self, (steps, batch): Shape) -> &[f32] {
        &self.values[..steps * batch * self.units]
    }

    /// From `d_output`, the gradient by [`Sum::output`], to [`Sum::gradient`], which is left in its place too.
    pub(super) fn backward(&mut self, d_output: &mut [f32], mask: Option<&[f32]>, shape: Shape) {
        if let Some(mask) = mask {
            times(&self.compute, d_output, mask, shape.1 * self.units);
        }
        self.gradient.grow(d_output.len());
        self.gradient[..d_output.len()].copy_from_slice(d_output);
    }

    /// The gradient by the output of every layer without its mask, (T, B, d).
    pub(super) fn gradient(&self, (steps, batch): Shape) -> &[f32] {
        &self.gradient[..steps * batch * self.units]
    }
}
